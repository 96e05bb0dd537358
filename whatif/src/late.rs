//! When other streams finished with the blocks that they used.
//!
//! A block that was used on other streams returns to the pool once each of them has finished with it. The capture has
//! the time of the return (RELEASED). The allocator checks a stream's events in order, and an event that is not ready
//! delays those behind it. So at the return each of the block's streams had finished with whatever was freed before the
//! block. If the capture lacks the return, the block was back at the latest when its memory was used again.

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};

/// Blocks of the recorded run that were used on streams other than their own.
#[derive(Debug, Default)]
pub(crate) struct Late {
    live: FxHashMap<u64, FxHashSet<u64>>,
    waiting: BTreeMap<u64, Waiting>,
}

/// A block that was freed and is not back in the pool.
#[derive(Debug)]
pub(crate) struct Waiting {
    /// The address of its end.
    end: u64,
    /// The number of its free.
    pub(crate) freed: u64,
    /// The streams that it waits for.
    pub(crate) streams: FxHashSet<u64>,
}

impl Late {
    /// A block is used on a stream other than its own.
    pub(crate) fn used(&mut self, ptr: u64, stream: u64) {
        self.live.entry(ptr).or_default().insert(stream);
    }

    /// A block is freed; returns whether it may wait.
    pub(crate) fn freed(&mut self, ptr: u64, bytes: u64, freed: u64) -> bool {
        let Some(streams) = self.live.remove(&ptr) else {
            return false;
        };
        let end = ptr.saturating_add(bytes);
        let waiting = Waiting {
            end,
            freed,
            streams,
        };
        self.waiting.insert(ptr, waiting);
        true
    }

    /// A block is back in the pool.
    pub(crate) fn released(&mut self, ptr: u64) -> Option<Waiting> {
        self.waiting.remove(&ptr)
    }

    /// Memory is used again or freed: removes a block that waited there; call again until it returns `None`.
    pub(crate) fn reused(&mut self, ptr: u64, bytes: u64) -> Option<Waiting> {
        let end = ptr.saturating_add(bytes);
        let (&at, last) = self.waiting.range(..end).next_back()?;
        (last.end > ptr).then(|| self.waiting.remove(&at))?
    }

    /// All streams are synchronized: removes a block that waited; call again until it returns `None`.
    pub(crate) fn synchronized(&mut self) -> Option<Waiting> {
        self.waiting.pop_first().map(|(_, waiting)| waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_waits_from_its_release_until_it_is_back() {
        let mut late = Late::default();
        late.used(1, 7);
        late.used(1, 9);
        late.used(1, 7);
        assert!(late.released(1).is_none());
        assert!(late.freed(1, 1, 100));
        assert!(!late.freed(2, 1, 101));
        let waiting = late.released(1).unwrap();
        let mut streams: Vec<_> = waiting.streams.into_iter().collect();
        streams.sort_unstable();
        assert_eq!((waiting.freed, streams), (100, vec![7, 9]));
        assert!(late.released(1).is_none() && late.released(2).is_none());
        // The state of the address's next block starts empty.
        late.freed(1, 1, 200);
        assert!(late.released(1).is_none());
    }

    #[test]
    fn a_block_waits_no_longer_than_until_its_memory_is_used_again() {
        let mut late = Late::default();
        for (seq, ptr) in [100, 110, 120, 130].into_iter().enumerate() {
            late.used(ptr, 7);
            late.freed(ptr, 10, seq as u64);
        }
        assert!(late.reused(90, 10).is_none() && late.reused(140, 9).is_none());
        let mut freed = Vec::new();
        while let Some(waiting) = late.reused(119, 2) {
            freed.push(waiting.freed);
        }
        assert_eq!(freed, [2, 1]);
        assert_eq!(late.synchronized().map(|of| of.freed), Some(0));
        assert_eq!(late.synchronized().map(|of| of.freed), Some(3));
        assert!(late.synchronized().is_none());
    }
}

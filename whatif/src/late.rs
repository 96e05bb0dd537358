//! When other streams were through with the blocks that they used.
//!
//! A block that was used on other streams goes back to the pool once each of them is through with it. The capture says
//! when it went back (RELEASED). A stream's events are looked at in order and one that is not ready holds up those
//! behind it; so by then each of its streams was through with whatever had been freed before the block. Where the capture
//! does not say it, the block was back at the latest when its memory was used again.

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};

/// Blocks of the recorded run that were used on other streams than their own.
#[derive(Debug, Default)]
pub(crate) struct Late {
    live: FxHashMap<u64, FxHashSet<u64>>,
    waiting: BTreeMap<u64, Waiting>,
}

/// A block that was freed and is not back in the pool.
#[derive(Debug)]
pub(crate) struct Waiting {
    /// Where it ends.
    end: u64,
    /// The seq of its release.
    pub(crate) freed: u64,
    /// The streams that it waits for.
    pub(crate) streams: FxHashSet<u64>,
}

impl Late {
    /// A block is used on a stream that is not its own.
    pub(crate) fn used(&mut self, ptr: u64, stream: u64) {
        self.live.entry(ptr).or_default().insert(stream);
    }

    /// A block is freed; whether it may wait.
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

    /// Memory is used again, or given back: a block that waited there, if there is one more.
    pub(crate) fn reused(&mut self, ptr: u64, bytes: u64) -> Option<Waiting> {
        let end = ptr.saturating_add(bytes);
        let (&at, last) = self.waiting.range(..end).next_back()?;
        (last.end > ptr).then(|| self.waiting.remove(&at))?
    }

    /// All streams are waited for: a block that waited, if there is one more.
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
        // The address's next block begins anew.
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

//! When other streams were through with the blocks that they used.
//!
//! A block that was used on other streams goes back to the pool once each of them is through with it. The capture says
//! when it went back (RELEASED). A stream's events are looked at in order and one that is not ready holds up those
//! behind it; so by then each of its streams was through with whatever had been freed before the block.

use rustc_hash::{FxHashMap, FxHashSet};

/// Blocks of the recorded run that were used on other streams than their own.
#[derive(Debug, Default)]
pub(crate) struct Late {
    live: FxHashMap<u64, FxHashSet<u64>>,
    waiting: FxHashMap<u64, Waiting>,
}

/// A block that was freed and is not back in the pool.
#[derive(Debug)]
pub(crate) struct Waiting {
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

    /// A block is freed.
    pub(crate) fn freed(&mut self, ptr: u64, freed: u64) {
        if let Some(streams) = self.live.remove(&ptr) {
            self.waiting.insert(ptr, Waiting { freed, streams });
        }
    }

    /// A block is back in the pool.
    pub(crate) fn released(&mut self, ptr: u64) -> Option<Waiting> {
        self.waiting.remove(&ptr)
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
        late.freed(1, 100);
        late.freed(2, 101);
        let waiting = late.released(1).unwrap();
        let mut streams: Vec<_> = waiting.streams.into_iter().collect();
        streams.sort_unstable();
        assert_eq!((waiting.freed, streams), (100, vec![7, 9]));
        assert!(late.released(1).is_none() && late.released(2).is_none());
        // The address's next block begins anew.
        late.freed(1, 200);
        assert!(late.released(1).is_none());
    }
}

//! Blocks of a device in rows of any kind: what was allocated, and what was live at a moment.

use std::collections::BTreeMap;

use crate::replay::{At, Figure};

/// Blocks of one row.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    allocated: Figure,
    live: Figure,
    /// What was live at the newest peak that has come since it changed last: its number, and that.
    at_peak: (u64, Figure),
}

/// The blocks of a device, by rows.
#[derive(Debug)]
pub(super) struct Tally<K> {
    /// How many peaks there have been.
    peaks: u64,
    buckets: BTreeMap<K, Bucket>,
}

/// What happened to a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    /// Its bytes.
    pub bytes: u64,
    /// Whether it is live now.
    pub is_live: bool,
    /// Whether it was allocated, and did not come back by a free that failed.
    pub is_new: bool,
    /// Whether the moment is still to come.
    pub counts: bool,
}

impl<K> Default for Tally<K> {
    fn default() -> Self {
        Self {
            peaks: 0,
            buckets: BTreeMap::new(),
        }
    }
}

impl<K: Ord> Tally<K> {
    /// A block of a row came or went.
    pub fn change(&mut self, row: K, change: Change) {
        let peaks = self.peaks;
        let bucket = self.buckets.entry(row).or_default();
        if bucket.at_peak.0 < peaks {
            bucket.at_peak = (peaks, bucket.live);
        }
        let (bytes, blocks) = (change.bytes, 1);
        if change.is_new {
            bucket.allocated += Figure { bytes, blocks };
        }
        if change.counts && change.is_live {
            bucket.live += Figure { bytes, blocks };
        } else if change.counts {
            bucket.live.bytes = bucket.live.bytes.saturating_sub(bytes);
            bucket.live.blocks = bucket.live.blocks.saturating_sub(1);
        }
    }

    /// The level has a new peak now.
    pub fn peak(&mut self) {
        self.peaks += 1;
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.buckets.len()
    }

    /// Whether there is such a row.
    pub fn has(&self, row: &K) -> bool {
        self.buckets.contains_key(row)
    }

    /// Forgets what was allocated, and not what is live.
    pub fn forget_allocated(&mut self) {
        for bucket in self.buckets.values_mut() {
            bucket.allocated = Figure::default();
        }
    }

    /// Each row with what was allocated, and what was live at the moment.
    pub fn rows(self, moment: At) -> impl Iterator<Item = (K, Figure, Figure)> {
        let peaks = self.peaks;
        self.buckets.into_iter().map(move |(row, bucket)| {
            let live = match moment {
                At::Peak if bucket.at_peak.0 == peaks => bucket.at_peak.1,
                _ => bucket.live,
            };
            (row, bucket.allocated, live)
        })
    }
}

//! Blocks of a device in rows of any kind: allocated ones, and those that were live at a point in time.

use std::collections::BTreeMap;

use crate::replay::{At, Figure};

/// Blocks of one row.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    allocated: Figure,
    live: Figure,
    /// The number of the newest peak since the last change, and the live blocks at that peak.
    at_peak: (u64, Figure),
}

/// The blocks of a device, by rows.
#[derive(Debug)]
pub(super) struct Tally<K> {
    /// The number of peaks so far.
    peaks: u64,
    buckets: BTreeMap<K, Bucket>,
}

/// A change of a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    /// Its bytes.
    pub bytes: u64,
    /// Whether it is live now.
    pub is_live: bool,
    /// Whether it is a new allocation and not one that a failed free restored.
    pub is_new: bool,
    /// Whether the point in time is not yet reached.
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
    /// A block of a row was allocated or freed.
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

    /// The level has reached a new peak.
    pub fn peak(&mut self) {
        self.peaks += 1;
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.buckets.len()
    }

    /// Whether a row exists.
    pub fn has(&self, row: &K) -> bool {
        self.buckets.contains_key(row)
    }

    /// Resets the allocations, but not the live blocks.
    pub fn forget_allocated(&mut self) {
        for bucket in self.buckets.values_mut() {
            bucket.allocated = Figure::default();
        }
    }

    /// Each row with its allocations, and its live blocks at the point in time.
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

//! The progress of a search for names.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The progress of a long search for names. Other threads may read it.
#[derive(Clone, Debug, Default)]
pub struct Work {
    done: Arc<AtomicU64>,
    total: Arc<AtomicU64>,
}

impl Work {
    /// Finished places.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// All places, as far as they are known.
    pub fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    pub(super) fn add(&self, places: usize) {
        self.total.fetch_add(places as u64, Ordering::Relaxed);
    }

    pub(super) fn finish(&self, places: usize) {
        self.done.fetch_add(places as u64, Ordering::Relaxed);
    }
}

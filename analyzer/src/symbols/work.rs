//! How far a search for names has come.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How far a long search for names has come; may be asked from other threads.
#[derive(Clone, Debug, Default)]
pub struct Work {
    done: Arc<AtomicU64>,
    total: Arc<AtomicU64>,
}

impl Work {
    /// Places that are done.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Places to do in all, as far as is known.
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

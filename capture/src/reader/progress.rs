//! How a capture's pages are read, and how far that has come.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::page::Part;

/// How pages are read.
#[derive(Clone, Copy, Debug)]
pub(super) struct How {
    /// How many threads decode them ahead; `None`: as many as are worth it.
    pub(super) threads: Option<usize>,
    /// What is decoded of them.
    pub(super) part: Part,
}

/// How far [`super::Reader::read`] has come; may be asked from within its sink, and from other threads.
#[derive(Clone, Debug)]
pub struct Progress {
    position: Arc<AtomicU64>,
    total: Arc<AtomicU64>,
    is_stopped: Arc<AtomicBool>,
}

impl Progress {
    pub(super) fn new(total: u64) -> Self {
        Self {
            position: Arc::default(),
            total: Arc::new(AtomicU64::new(total)),
            is_stopped: Arc::default(),
        }
    }

    /// Bytes of the file that have been read.
    pub fn position(&self) -> u64 {
        self.position.load(Ordering::Relaxed)
    }

    /// Bytes to be read in all, as far as is known.
    pub fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// Has reading end with the page at hand. What it then returns is of no use.
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }

    /// Whether reading was told to end early.
    pub fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }

    pub(super) fn set(&self, position: u64) {
        self.position.store(position, Ordering::Relaxed);
        self.total.fetch_max(position, Ordering::Relaxed);
    }
}

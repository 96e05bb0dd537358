//! How a capture's pages are read, and the progress.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::page::Part;

/// How pages are read.
#[derive(Clone, Copy, Debug)]
pub(super) struct How {
    /// The number of threads that decode them ahead; `None`: as many as are worthwhile.
    pub(super) threads: Option<usize>,
    /// The part of each page that is decoded.
    pub(super) part: Part,
}

/// The progress of [`super::Reader::read`]; can be queried from within its sink and from other threads.
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

    /// Total number of bytes to read, as far as known.
    pub fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// Stops reading after the current page. The result of the read is then meaningless.
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }

    /// Whether [`Progress::stop`] was called.
    pub fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }

    pub(super) fn set(&self, position: u64) {
        self.position.store(position, Ordering::Relaxed);
        self.total.fetch_max(position, Ordering::Relaxed);
    }
}

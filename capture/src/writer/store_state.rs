//! The state of the thread that writes the file, and the part that other threads can read.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use gpumem_sys::wait;

use super::phase::Phase;

/// The state of the thread that writes the file that other threads can read.
#[derive(Default)]
pub(super) struct Stored {
    /// Changes when there is something to write.
    pub(super) work: AtomicU32,
    /// Odd while a write is in progress.
    pub(super) writes: AtomicU64,
    /// The phase for which everything is written: 0 for none, otherwise the [`Phase`]'s number plus
    /// one.
    pub(super) done: AtomicU32,
    pub(super) is_deleted: AtomicBool,
    /// Another program has cut off pages.
    pub(super) is_cut: AtomicBool,
    /// All records before this are in the file.
    pub(super) known: AtomicU64,
}

impl Stored {
    pub(super) fn wake(&self) {
        self.work.fetch_add(1, Ordering::Release);
        wait::wake(&self.work);
    }

    /// The number of the write in progress, if one is.
    pub(super) fn write_in_progress(&self) -> Option<u64> {
        let writes = self.writes.load(Ordering::Relaxed);
        (writes % 2 == 1).then_some(writes)
    }

    pub(super) fn is_done(&self, phase: Phase) -> bool {
        self.done.load(Ordering::Acquire) > phase as u32
    }

    pub(super) fn writing<R>(&self, write: impl FnOnce() -> R) -> R {
        self.writes.fetch_add(1, Ordering::Relaxed);
        let result = write();
        self.writes.fetch_add(1, Ordering::Relaxed);
        result
    }
}

/// The state of the file.
pub(super) struct State {
    pub(super) pages_end: u64,
    /// Records before this are in pages.
    pub(super) next: u64,
    /// The offset of the journal.
    pub(super) journal: u64,
    /// Records before this are in pages or in the journal.
    pub(super) known: u64,
    /// The last written head.
    pub(super) head: Vec<u8>,
    pub(super) failures: u64,
    pub(super) first_failure: u64,
    pub(super) failing: bool,
}

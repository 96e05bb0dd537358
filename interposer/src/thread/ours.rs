//! The recorder's threads.

use core::sync::atomic::{AtomicI32, Ordering};

use crate::process::PROCESS;
use gpumem_sys::threads;

/// While it exists, the thread that made it is one of the recorder's.
pub(super) struct Ours(Option<&'static AtomicI32>);

impl Ours {
    pub(super) fn new() -> Self {
        let own = threads::own().cast_signed();
        Self(PROCESS.threads.iter().find(|place| {
            let taken = place.compare_exchange(0, own, Ordering::AcqRel, Ordering::Relaxed);
            taken.is_ok()
        }))
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        if let Some(place) = self.0 {
            place.store(0, Ordering::Release);
        }
    }
}

/// Whether a thread is one of them.
pub(super) fn contains(thread: i32) -> bool {
    PROCESS
        .threads
        .iter()
        .any(|place| place.load(Ordering::Acquire) == thread)
}

//! What the failing thread finds, for the thread that judges its failure meanwhile.

use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use gpumem_sys::wait;

use crate::session::Walked;

/// A place for the result of a search for holders.
pub(super) struct Walk {
    /// 0 until there is a result, or it is known that there will not be one.
    is_over: AtomicU32,
    walked: Mutex<Option<Walked>>,
}

impl Walk {
    /// A search that has not ended.
    pub(super) const fn running() -> Self {
        Self {
            is_over: AtomicU32::new(0),
            walked: Mutex::new(None),
        }
    }

    /// No search.
    pub(super) const fn none() -> Self {
        Self {
            is_over: AtomicU32::new(1),
            walked: Mutex::new(None),
        }
    }

    /// The search has ended.
    pub(super) fn end(&self, walked: Option<Walked>) {
        *self.walked.lock().unwrap_or_else(PoisonError::into_inner) = walked;
        self.is_over.store(1, Ordering::Release);
        wait::wake(&self.is_over);
    }

    /// Waits for its end.
    pub(super) fn wait(&self) -> Option<Walked> {
        while self.is_over.load(Ordering::Acquire) == 0 {
            wait::sleep(&self.is_over, 0, Duration::MAX);
        }
        let mut walked = self.walked.lock().unwrap_or_else(PoisonError::into_inner);
        walked.take()
    }
}

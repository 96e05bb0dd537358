//! Lines for stderr from a thread that does not have it: another one prints them.

use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::message;

/// Those that are not printed yet.
#[derive(Default)]
pub(super) struct Lines {
    waiting: Mutex<Vec<String>>,
    any: AtomicBool,
}

impl Lines {
    /// Has a line printed soon.
    pub(super) fn leave(&self, text: String) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.push(text);
        self.any.store(true, Ordering::Release);
    }

    /// Prints what was left.
    pub(super) fn print(&self) {
        if !self.any.swap(false, Ordering::AcqRel) {
            return;
        }
        let lines = {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *waiting)
        };
        for line in lines {
            message::line(&line);
        }
    }
}

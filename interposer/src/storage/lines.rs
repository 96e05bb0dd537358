//! Lines for stderr from a thread without access to it: another thread prints them.

use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::message;

/// The lines that are not printed yet.
#[derive(Default)]
pub(super) struct Lines {
    waiting: Mutex<Vec<String>>,
    any: AtomicBool,
}

impl Lines {
    /// Queues a line to be printed soon.
    pub(super) fn leave(&self, text: String) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.push(text);
        self.any.store(true, Ordering::Release);
    }

    /// Prints the queued lines.
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

//! Lines for stderr from a thread that does not have it: another one prints them.

use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::message;

static WAITING: Mutex<Vec<String>> = Mutex::new(Vec::new());
static ANY: AtomicBool = AtomicBool::new(false);

/// Has a line printed soon.
pub(super) fn leave(text: String) {
    let mut waiting = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
    waiting.push(text);
    ANY.store(true, Ordering::Release);
}

/// Prints what was left.
pub(crate) fn print() {
    if !ANY.swap(false, Ordering::AcqRel) {
        return;
    }
    let lines = {
        let mut waiting = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *waiting)
    };
    for line in lines {
        message::line(&line);
    }
}

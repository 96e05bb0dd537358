//! Lines for stderr from a thread without access to it: another thread prints them.

use std::path::Path;

use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use gpumem_capture::Trouble;

use crate::message;

/// The line about a problem with the capture at `path`.
pub(super) fn of(path: &Path, trouble: &Trouble<'_>) -> Option<String> {
    let path = path.display();
    Some(match trouble {
        Trouble::Write(error) if error.raw_os_error() == Some(libc::EFBIG) => format!(
            "cannot write to {path}: the limit on the size of files (ulimit -f) is reached. Events wait in memory; those that do not fit are counted as lost. The program continues."
        ),
        Trouble::Write(error) => format!(
            "cannot write to {path}: {error}. Events wait in memory; those that do not fit are counted as lost. The program continues."
        ),
        Trouble::Stuck => format!(
            "{path}: the disk does not respond. Events wait in memory, up to 64 MiB compressed. The program continues."
        ),
        Trouble::Cut(bytes) => format!(
            "{path}: another program truncated it during recording: {bytes} bytes of events are lost. Later events are recorded."
        ),
        Trouble::Full(error) => format!(
            "{path}: the memory for waiting events is full ({error}). Events that no longer fit are counted as lost. The program continues."
        ),
        _ => return None,
    })
}

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

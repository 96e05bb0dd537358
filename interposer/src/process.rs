//! Whether this process is one in which something may be recorded.

use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use gpumem_capture::Writer;

static WRITER: AtomicPtr<Writer> = AtomicPtr::new(core::ptr::null_mut());
static OFF: AtomicBool = AtomicBool::new(false);

/// Says that `writer` is the capture of this process from now on.
pub(crate) fn records_to(writer: &'static Writer) {
    WRITER.store(core::ptr::from_ref(writer).cast_mut(), Ordering::Release);
}

/// Says that there is no capture and will be none.
pub(crate) fn turn_off() {
    OFF.store(true, Ordering::Relaxed);
}

/// Whether nothing will be recorded in this process any more: it is a child forked from one that
/// records, or its capture could not be opened. Nothing of ours may then be touched: another thread
/// may have held it at the fork.
pub(crate) fn is_aside() -> bool {
    // SAFETY: null, or the writer of `records_to`, published with Release.
    match unsafe { WRITER.load(Ordering::Acquire).as_ref() } {
        Some(writer) => !writer.is_own_process(),
        None => OFF.load(Ordering::Relaxed),
    }
}

//! The guarded mappings, and the record of a fault in one.

use core::ffi::c_int;
use core::sync::atomic::{AtomicU32, Ordering, fence};

use super::state::{FAULT, Range};
use super::sys;

/// Mask of the offset in a page, because a mapping's length need not be a multiple of a page.
const IN_PAGE: usize = 4095;

/// Adds a mapping. False if there is no room for it. Only one thread may call this at a time.
pub(super) fn add(base: usize, len: usize) -> bool {
    let free = |range: &&Range| range.base.load(Ordering::Relaxed) == 0;
    let Some(range) = FAULT.ranges.iter().find(free) else {
        return false;
    };
    range
        .len
        .store((len + IN_PAGE) & !IN_PAGE, Ordering::Relaxed);
    range.base.store(base, Ordering::Release);
    true
}

/// Sets the word that ends recording, and the one that marks memory as lost.
pub(super) fn set_words([recording, lost]: [&'static AtomicU32; 2]) {
    for (to, word) in [(&FAULT.lost, lost), (&FAULT.recording, recording)] {
        to.store(core::ptr::from_ref(word).cast_mut(), Ordering::Release);
    }
}

/// Whether a mapping was lost.
#[inline]
pub(super) fn broken() -> bool {
    FAULT.broken.load(Ordering::Relaxed)
}

/// The reason, as `si_code`.
pub(super) fn code() -> c_int {
    FAULT.code.load(Ordering::Relaxed)
}

/// Ends recording and replaces the mapping that holds `address` by zeroed memory, so that the instruction can run.
/// False if the address is in no mapping, or there is no memory.
pub(super) fn replace(address: usize, code: c_int) -> bool {
    let holds = |range: &&Range| {
        let base = range.base.load(Ordering::Acquire);
        base != 0 && address.wrapping_sub(base) < range.len.load(Ordering::Relaxed)
    };
    let Some(range) = FAULT.ranges.iter().find(holds) else {
        return false;
    };
    FAULT.code.store(code, Ordering::Relaxed);
    FAULT.broken.store(true, Ordering::Release);
    for (word, value) in [(&FAULT.lost, 1), (&FAULT.recording, 0)] {
        // SAFETY: null, or a word that lives as long as the process.
        if let Some(word) = unsafe { word.load(Ordering::Acquire).as_ref() } {
            word.store(value, Ordering::Release);
        }
    }
    // A reader of zeros that are not the file's can then detect that recording has ended.
    fence(Ordering::SeqCst);
    let (base, len) = (
        range.base.load(Ordering::Relaxed),
        range.len.load(Ordering::Relaxed),
    );
    // SAFETY: a range is a mapping of ours, whole, and recording has ended: nothing in it is wanted any more. A fault
    // of several threads replaces it more than once, which loses as little.
    unsafe { sys::replace(base, len) }
}

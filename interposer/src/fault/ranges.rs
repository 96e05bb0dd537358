//! The mappings that are guarded, and what is known of a fault in one.

use core::ffi::c_int;
use core::sync::atomic::{AtomicU32, Ordering, fence};

use super::state::{FAULT, Range};
use super::sys;

/// Part of a page that a mapping's length need not be a multiple of.
const IN_PAGE: usize = 4095;

/// Adds a mapping. False if there is no room for it. For one thread at a time.
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

/// Names the word that ends recording, and the one that says that memory is lost.
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

/// Why, as `si_code` has it.
pub(super) fn code() -> c_int {
    FAULT.code.load(Ordering::Relaxed)
}

/// Ends recording and puts zeroed memory in the place of the mapping that holds `address`: the instruction can then
/// run. False if it lies in none, or there is no memory.
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
    // Who reads zeros that are not the file's can know that recording has ended.
    fence(Ordering::SeqCst);
    let (base, len) = (
        range.base.load(Ordering::Relaxed),
        range.len.load(Ordering::Relaxed),
    );
    // SAFETY: a range is a mapping of ours, whole, and recording has ended: nothing in it is wanted any more. A fault
    // of several threads replaces it more than once, which loses as little.
    unsafe { sys::replace(base, len) }
}

//! Reusable buffers for one thread's stacks: separate pages, of which a thread touches few.

use core::ffi::c_void;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicPtr, Ordering};

use gpumem_python_frames::{Frame, StackMemo};
use gpumem_sys::pages;
use gpumem_unwind::Unwinder;

use crate::thread_static;
use crate::tls::ThreadEnd;

/// The number of newest frames of a Python stack that are kept.
pub(super) const PYTHON_FRAMES: usize = 256;

/// One thread's buffers.
pub(super) struct Scratch {
    pub(super) python: [Frame; PYTHON_FRAMES],
    /// The last look at the Python stack.
    pub(super) last: StackMemo,
    pub(super) unwinder: Unwinder,
    pub(super) native: [u64; gpumem_unwind::FRAMES],
    /// A stack definition's payload.
    pub(super) payload: Vec<u8>,
    /// A code object's names.
    pub(super) names: Vec<u8>,
}

thread_static! {
    /// This thread's scratch; null before the first use and while it is in use.
    fn place() -> *mut Scratch as "gpumem_scratch";
}

/// Replaces this thread's scratch by `new` and returns the old one.
#[inline(always)]
fn replace_mine(new: *mut Scratch) -> *mut Scratch {
    // SAFETY: the word is this thread's alone, and lives as long as the thread.
    unsafe { place().replace(new) }
}

/// Scratch of threads that have ended, for reuse by new threads with any interner.
struct Ended {
    spare: [AtomicPtr<Scratch>; 64],
    at_end: ThreadEnd,
}

static ENDED: Ended = Ended {
    spare: [const { AtomicPtr::new(null_mut()) }; 64],
    at_end: ThreadEnd::new(thread_ends),
};

/// Runs `use_it` with this thread's scratch; None if there is no memory for one.
#[inline]
pub(super) fn with<R>(use_it: impl FnOnce(&mut Scratch) -> R) -> Option<R> {
    let mut scratch = match NonNull::new(replace_mine(null_mut())) {
        Some(scratch) => scratch,
        None => obtain()?,
    };
    // SAFETY: taken out of the thread's word or out of [`ENDED`], they belong to this call alone; should it be
    // interrupted by another one on this thread, that one gets others.
    let result = use_it(unsafe { scratch.as_mut() });
    if let Some(others) = NonNull::new(replace_mine(scratch.as_ptr())) {
        hand_back(others.as_ptr());
    }
    Some(result)
}

#[cold]
fn obtain() -> Option<NonNull<Scratch>> {
    let spare = ENDED
        .spare
        .iter()
        .find_map(|place| NonNull::new(place.swap(null_mut(), Ordering::Acquire)));
    let mut scratch = spare.or_else(allocate)?;
    // SAFETY: taken out of [`ENDED`] or just allocated, they are in nobody else's hands.
    unsafe { scratch.as_mut() }.unwinder.change_thread();
    ENDED.at_end.ask(scratch.as_ptr());
    Some(scratch)
}

fn allocate() -> Option<NonNull<Scratch>> {
    let scratch = pages::map(size_of::<Scratch>())?.cast::<Scratch>();
    // SAFETY: zeros are valid numbers, frames, and a memo and an unwinder that have seen nothing; the vectors, for which they are not, are written
    // before anybody sees them.
    unsafe {
        (&raw mut (*scratch.as_ptr()).payload).write(Vec::new());
        (&raw mut (*scratch.as_ptr()).names).write(Vec::new());
    }
    Some(scratch)
}

/// Keeps the scratch for the next thread. If this thread has further events, they use another scratch, and this
/// function runs again.
unsafe extern "C" fn thread_ends(_: *mut c_void) {
    hand_back(replace_mine(null_mut()));
}

fn hand_back(mut scratch: *mut Scratch) {
    for place in &ENDED.spare {
        if scratch.is_null() {
            return;
        }
        if place.load(Ordering::Relaxed).is_null() {
            scratch = place.swap(scratch, Ordering::AcqRel);
        }
    }
    if !scratch.is_null() {
        // SAFETY: mapped with this size, and in nobody's hands.
        unsafe {
            scratch.drop_in_place();
            pages::unmap(scratch.cast(), size_of::<Scratch>());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_within_a_call_has_its_own() {
        let (outer, inner) = with(|outer| {
            let inner = with(|inner| &raw const *inner as usize).unwrap();
            (&raw const *outer as usize, inner)
        })
        .unwrap();
        assert_ne!(outer, inner);
        let next = with(|next| &raw const *next as usize).unwrap();
        assert!(next == outer || next == inner);
    }

    #[test]
    fn threads_that_end_leave_theirs_to_others() {
        let addresses: std::collections::HashSet<usize> = (0..500)
            .map(|_| {
                std::thread::spawn(|| with(|mine| &raw const *mine as usize).unwrap())
                    .join()
                    .unwrap()
            })
            .collect();
        // Other tests run threads at the same time.
        assert!(
            addresses.len() < 100,
            "{} rooms for 500 threads",
            addresses.len()
        );
    }
}

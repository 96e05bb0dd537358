//! Room for one thread's stacks, used again and again.

use core::ffi::c_void;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicPtr, Ordering};
use std::alloc::{Layout, alloc_zeroed};

use gpumem_python_frames::{Frame, StackMemo};
use gpumem_unwind::Unwinder;

use crate::local::{ThreadEnd, thread_static};

/// Frames of a Python stack that are kept, the newest.
pub(super) const PYTHON_FRAMES: usize = 256;

/// One thread's room.
pub(super) struct Buffers {
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
    /// This thread's; null before the first use and while it is in use.
    fn place() -> *mut Buffers as "gpumem_buffers";
}

/// Puts `new` in the place of this thread's.
#[inline(always)]
fn replace_mine(new: *mut Buffers) -> *mut Buffers {
    // SAFETY: the word is this thread's alone, and lives as long as the thread.
    unsafe { place().replace(new) }
}

/// Buffers of threads that have ended.
static SPARE: [AtomicPtr<Buffers>; 64] = [const { AtomicPtr::new(null_mut()) }; 64];

/// Runs `use_them` with this thread's buffers; None if there is no memory for any.
#[inline]
pub(super) fn with<R>(use_them: impl FnOnce(&mut Buffers) -> R) -> Option<R> {
    let mut buffers = match NonNull::new(replace_mine(null_mut())) {
        Some(buffers) => buffers,
        None => obtain()?,
    };
    // SAFETY: taken out of the thread's word or out of `SPARE`, they belong to this call alone; should it be
    // interrupted by another one on this thread, that one gets others.
    let result = use_them(unsafe { buffers.as_mut() });
    if let Some(others) = NonNull::new(replace_mine(buffers.as_ptr())) {
        hand_back(others.as_ptr());
    }
    Some(result)
}

#[cold]
fn obtain() -> Option<NonNull<Buffers>> {
    let spare = SPARE
        .iter()
        .find_map(|place| NonNull::new(place.swap(null_mut(), Ordering::Acquire)));
    let mut buffers = spare.or_else(allocate)?;
    // SAFETY: taken out of `SPARE` or just allocated, they are in nobody else's hands.
    unsafe { buffers.as_mut() }.unwinder.change_thread();
    AT_END.ask(buffers.as_ptr());
    Some(buffers)
}

fn allocate() -> Option<NonNull<Buffers>> {
    // SAFETY: the layout is not of size 0.
    let buffers =
        NonNull::new(unsafe { alloc_zeroed(Layout::new::<Buffers>()) })?.cast::<Buffers>();
    // SAFETY: zeros are valid numbers, frames, and a memo and an unwinder that have seen nothing; the vectors, for which they are not, are written
    // before anybody sees them.
    unsafe {
        (&raw mut (*buffers.as_ptr()).payload).write(Vec::new());
        (&raw mut (*buffers.as_ptr()).names).write(Vec::new());
    }
    Some(buffers)
}

static AT_END: ThreadEnd = ThreadEnd::new(thread_ends);

/// Keeps the buffers for the next thread. Events that this thread still has get others, and this
/// runs once more.
unsafe extern "C" fn thread_ends(_: *mut c_void) {
    hand_back(replace_mine(null_mut()));
}

fn hand_back(mut buffers: *mut Buffers) {
    for place in &SPARE {
        if buffers.is_null() {
            return;
        }
        if place.load(Ordering::Relaxed).is_null() {
            buffers = place.swap(buffers, Ordering::AcqRel);
        }
    }
    if !buffers.is_null() {
        // SAFETY: allocated with this layout by the global allocator, and in nobody's hands.
        drop(unsafe { Box::from_raw(buffers) });
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
        // Tests beside this one have threads too.
        assert!(
            addresses.len() < 100,
            "{} buffers for 500 threads",
            addresses.len()
        );
    }
}

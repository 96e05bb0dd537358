//! The recorder's memory: the program's allocator, and a reserve for when that has no more.
//!
//! A program may go on when one of its allocations is refused (a limit of its address space, a full cgroup), so an
//! allocation of the recorder must not end it. The first one that is refused is served from the reserve, and ends
//! recording: the reserve is for what is in progress then, and for writing what is recorded. It is never freed.

use core::alloc::{GlobalAlloc, Layout};
use core::ptr::null_mut;
use core::sync::atomic::Ordering;
use std::alloc::System;

use gpumem_capture::Ended;

use crate::process::{self, PROCESS, RESERVE};

/// Whether the program's allocator has refused memory: recording ends, or does not begin.
pub(crate) fn is_used_up() -> bool {
    PROCESS.reserve.taken.load(Ordering::Relaxed) != 0
}

/// Memory of the reserve, which is zeroed, or null.
#[cold]
#[inline(never)]
fn take(layout: Layout) -> *mut u8 {
    let mut from = 0;
    let taken = PROCESS
        .reserve
        .taken
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |taken| {
            from = taken.checked_next_multiple_of(layout.align())?;
            from.checked_add(layout.size().max(1))
                .filter(|&end| end <= RESERVE)
        });
    process::end_recording(Ended::NoMemory);
    match taken {
        // SAFETY: within the reserve, and given out once.
        Ok(_) => unsafe { PROCESS.reserve.bytes.get().cast::<u8>().add(from) },
        Err(_) => null_mut(),
    }
}

fn is_of_reserve(memory: *mut u8) -> bool {
    (memory as usize).wrapping_sub(PROCESS.reserve.bytes.get() as usize) < RESERVE
}

struct Memory;

#[global_allocator]
static MEMORY: Memory = Memory;

// SAFETY: all memory comes from the system's allocator or, each byte once, from the reserve, and memory of the
// reserve never goes to the system's.
unsafe impl GlobalAlloc for Memory {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        match unsafe { System.alloc(layout) } {
            memory if memory.is_null() => take(layout),
            memory => memory,
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        match unsafe { System.alloc_zeroed(layout) } {
            memory if memory.is_null() => take(layout),
            memory => memory,
        }
    }

    #[inline]
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        if !is_of_reserve(memory) {
            // SAFETY: the caller's promise; it is the system's.
            unsafe { System.dealloc(memory, layout) };
        }
    }

    #[inline]
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let is_ours = is_of_reserve(memory);
        if !is_ours {
            // SAFETY: the caller's promise; it is the system's.
            let moved = unsafe { System.realloc(memory, layout, size) };
            if !moved.is_null() {
                return moved;
            }
        }
        // SAFETY: the caller promises that the size, rounded up to the alignment, does not overflow.
        let moved = take(unsafe { Layout::from_size_align_unchecked(size, layout.align()) });
        if !moved.is_null() {
            // SAFETY: both are valid for that many bytes, and different memory.
            unsafe { moved.copy_from_nonoverlapping(memory, layout.size().min(size)) };
            if !is_ours {
                // SAFETY: the caller's promise; it is the system's.
                unsafe { System.dealloc(memory, layout) };
            }
        }
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reserve_is_given_out_once_and_never_to_the_system() {
        let layout = Layout::from_size_align(24, 64).expect("a layout");
        let (first, second) = (take(layout), take(layout));
        assert!(is_of_reserve(first) && is_of_reserve(second) && is_used_up());
        assert!(first.is_aligned() && second as usize >= first as usize + 24);
        assert_eq!((first as usize % 64, second as usize % 64), (0, 0));
        // SAFETY: 24 bytes at each, of that layout.
        unsafe {
            first.write_bytes(7, 24);
            let grown = MEMORY.realloc(first, layout, 4096);
            assert!(is_of_reserve(grown) && grown.add(23).read() == 7 && grown.add(24).read() == 0);
            MEMORY.dealloc(grown, layout);
        }
        assert!(take(Layout::from_size_align(RESERVE, 1).expect("a layout")).is_null());
    }
}

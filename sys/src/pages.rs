//! Whole pages of memory, zeroed, that take memory only where they are touched.

use core::ptr::NonNull;

use crate::raw;

/// Bytes of a page: 4096, or up to 65536 on some ARM machines.
pub fn size() -> usize {
    // SAFETY: sysconf takes a number; the C library has the answer in its memory.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).unwrap_or(4096)
}

/// Maps `length` bytes; None if the system refuses them.
pub fn map(length: usize) -> Option<NonNull<u8>> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let arguments = [
        0,
        length,
        protection as usize,
        flags as usize,
        usize::MAX,
        0,
    ];
    // SAFETY: maps new memory.
    let memory = unsafe { raw::call(libc::SYS_mmap, arguments) };
    let address = usize::try_from(memory).ok()?;
    // A huge page would be touched as a whole.
    let advice = [address, length, libc::MADV_NOHUGEPAGE as usize, 0, 0, 0];
    // SAFETY: the memory is our own; the advice changes none of its contents.
    unsafe { raw::call(libc::SYS_madvise, advice) };
    NonNull::new(address as *mut u8)
}

/// Unmaps what [`map`] has mapped with this length.
///
/// # Safety
/// Nothing uses the memory.
pub unsafe fn unmap(memory: *mut u8, length: usize) {
    // SAFETY: the caller's promise.
    unsafe { raw::call(libc::SYS_munmap, [memory as usize, length, 0, 0, 0, 0]) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_zeroed_and_their_own() {
        let memory = map(3 * 4096).expect("memory").as_ptr();
        // SAFETY: mapped above with this length.
        unsafe {
            assert!((0..3 * 4096).all(|at| memory.add(at).read() == 0));
            memory.add(3 * 4096 - 1).write(1);
            unmap(memory, 3 * 4096);
        }
        assert!(map(1 << 60).is_none());
    }
}

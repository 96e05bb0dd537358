//! Zeroed memory from the kernel: no allocator is called, and unwritten pages take no memory.

/// Permanent memory for one `T`, filled with zeros.
///
/// # Safety
/// All zeros must be a valid `T`.
pub(crate) unsafe fn zeroed<T>() -> Option<&'static mut T> {
    // SAFETY: new private memory, at no fixed address.
    let at = unsafe {
        libc::mmap(
            core::ptr::null_mut(),
            size_of::<T>(),
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    // SAFETY: a page is aligned for every type here; the memory has no other user; the caller ensures
    // that zeros are valid.
    (at != libc::MAP_FAILED).then(|| unsafe { &mut *at.cast::<T>() })
}

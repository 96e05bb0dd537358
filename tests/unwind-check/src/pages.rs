//! Zeroed memory from the kernel: no allocator is asked, and pages that are never written cost nothing.

/// Room for one `T`, all zeros, for good.
///
/// # Safety
/// All zeros are a valid `T`.
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
    // SAFETY: a page is aligned for every type here; nobody else has the memory; the caller's promise.
    (at != libc::MAP_FAILED).then(|| unsafe { &mut *at.cast::<T>() })
}

//! The thread's `errno`.

/// Restores the thread's `errno` when it is dropped.
pub struct KeepErrno(i32);

impl KeepErrno {
    /// Saves the current `errno`.
    #[expect(
        clippy::new_without_default,
        reason = "it is made for what it does when it goes"
    )]
    pub fn new() -> Self {
        // SAFETY: __errno_location gives the calling thread's own errno, always valid.
        Self(unsafe { *libc::__errno_location() })
    }
}

impl Drop for KeepErrno {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { *libc::__errno_location() = self.0 };
    }
}

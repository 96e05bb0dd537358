//! Whether this is still the process that created the capture.
//!
//! The ring is shared memory: a forked child that went on recording would write into its parent's.
//! A page that the kernel empties in every child tells it with one load, with no atfork handler.

use core::sync::atomic::{AtomicU32, Ordering};

pub(super) struct Owner {
    /// In a page of its own: the process id, 0 in a forked child.
    word: &'static AtomicU32,
    /// The kernel (before 4.14) cannot empty pages: ask for the process id each time.
    must_ask: bool,
}

impl Owner {
    /// None if there is no memory for a page.
    pub(super) fn new() -> Option<Self> {
        // SAFETY: a fresh anonymous mapping; sysconf and mmap touch no memory of ours.
        let (page, size) = unsafe {
            let size = usize::try_from(libc::sysconf(libc::_SC_PAGESIZE)).ok()?;
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            (
                libc::mmap(core::ptr::null_mut(), size, protection, flags, -1, 0),
                size,
            )
        };
        if page == libc::MAP_FAILED {
            return None;
        }
        // SAFETY: the mapping above, whole.
        let must_ask = unsafe { libc::madvise(page, size, libc::MADV_WIPEONFORK) } != 0;
        // SAFETY: the page is aligned, zeroed, never unmapped, and used for this atomic alone.
        let word = unsafe { AtomicU32::from_ptr(page.cast()) };
        word.store(std::process::id(), Ordering::Relaxed);
        Some(Self { word, must_ask })
    }

    #[inline]
    pub(super) fn is_this_process(&self) -> bool {
        let pid = self.word.load(Ordering::Relaxed);
        pid != 0 && (!self.must_ask || pid == std::process::id())
    }
}

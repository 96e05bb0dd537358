//! Whether this is still the process that created the capture, and whether it still records.
//!
//! The ring is shared memory: a forked child that continued recording would write into its parent's.
//! The kernel empties a page in every child, so one load detects a child without an atfork handler.

use core::sync::atomic::{AtomicU32, Ordering};

pub(super) struct Owner {
    /// In a separate page: the process id, 0 in a forked child and once recording has ended.
    word: &'static AtomicU32,
    /// In the same page: the process id, 0 in a forked child.
    own: &'static AtomicU32,
    /// In the same page: not 0 once the shared memory was replaced by other memory.
    lost: &'static AtomicU32,
    /// The kernel (before 4.14) cannot empty pages: query the process id each time.
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
        // SAFETY: the page is aligned, zeroed, never unmapped, and used for these three atomics alone.
        let [word, own, lost] = unsafe {
            let first = page.cast::<u32>();
            [0, 1, 2].map(|n| AtomicU32::from_ptr(first.add(n)))
        };
        word.store(std::process::id(), Ordering::Relaxed);
        own.store(std::process::id(), Ordering::Relaxed);
        Some(Self {
            word,
            own,
            lost,
            must_ask,
        })
    }

    /// The word that permanently ends recording once it is 0.
    pub(super) fn word(&self) -> &'static AtomicU32 {
        self.word
    }

    /// The word that marks the shared memory as lost once it is not 0.
    pub(super) fn lost(&self) -> &'static AtomicU32 {
        self.lost
    }

    /// Ends recording permanently.
    pub(super) fn end(&self) {
        self.word.store(0, Ordering::Release);
    }

    /// Whether this is the process that created the capture, and it records.
    #[inline]
    pub(super) fn records(&self) -> bool {
        self.is(self.word)
    }

    /// Whether this is the process that created the capture.
    pub(super) fn is_this_process(&self) -> bool {
        self.is(self.own)
    }

    #[inline]
    fn is(&self, word: &AtomicU32) -> bool {
        let pid = word.load(Ordering::Relaxed);
        pid != 0 && (!self.must_ask || pid == std::process::id())
    }
}

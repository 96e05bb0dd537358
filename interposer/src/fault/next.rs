//! The functions that come after ours: those of another preloaded library, or the C library's.

use core::ffi::{CStr, c_int};
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::resolve::elf;

/// A function of ours that has a next one.
pub(super) struct Next {
    name: &'static CStr,
    address: AtomicUsize,
}

macro_rules! next {
    ($($constant:ident = $name:literal),* $(,)?) => {
        $(pub(super) static $constant: Next = Next { name: $name, address: AtomicUsize::new(0) };)*
        static ALL: &[&Next] = &[$(&$constant),*];
    };
}

next! {
    SIGACTION = c"sigaction",
    SIGACTION_INTERNAL = c"__sigaction",
    SIGNAL = c"signal",
    BSD_SIGNAL = c"bsd_signal",
    SSIGNAL = c"ssignal",
    SYSV_SIGNAL = c"sysv_signal",
    SYSV_SIGNAL_INTERNAL = c"__sysv_signal",
    SIGSET = c"sigset",
    SIGIGNORE = c"sigignore",
    SIGINTERRUPT = c"siginterrupt",
}

impl Next {
    /// Its address.
    #[inline]
    pub(super) fn address(&self) -> usize {
        match self.address.load(Ordering::Relaxed) {
            0 => self.find(),
            known => known,
        }
    }

    /// Looks all of them up. The first handler of a process cannot have run before the first call that installs one, so
    /// none is looked up inside a handler.
    #[cold]
    #[inline(never)]
    fn find(&self) -> usize {
        let own = missing as *const () as usize;
        for next in ALL {
            let found = match elf::after(own, next.name) {
                0 => elf::in_libc(next.name),
                found => found,
            };
            let found = match found {
                0 => own,
                found => found,
            };
            next.address.store(found, Ordering::Relaxed);
        }
        self.address.load(Ordering::Relaxed)
    }
}

/// What there is to say where the C library has no such function. -1 is `SIG_ERR`, too.
unsafe extern "C" fn missing() -> isize {
    super::host::set_errno(libc::ENOSYS);
    -1
}

/// The type of most of them.
pub(super) type Signal = unsafe extern "C" fn(c_int, usize) -> usize;

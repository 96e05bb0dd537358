//! The functions after ours in the loader's order: those of another preloaded library, or the C library's.

use core::ffi::{CStr, c_int};
use core::sync::atomic::Ordering;

use super::state::{FAULT, NEXT};
use crate::resolve::elf;

macro_rules! next {
    ($($function:ident = $name:literal),* $(,)?) => {
        /// One of our functions that has a next one.
        #[derive(Clone, Copy)]
        pub(super) enum Next { $($function),* }

        const NAMES: [&CStr; NEXT] = [$($name),*];
    };
}

next! {
    Sigaction = c"sigaction",
    SigactionInternal = c"__sigaction",
    Signal = c"signal",
    BsdSignal = c"bsd_signal",
    Ssignal = c"ssignal",
    SysvSignal = c"sysv_signal",
    SysvSignalInternal = c"__sysv_signal",
    Sigset = c"sigset",
    Sigignore = c"sigignore",
    Siginterrupt = c"siginterrupt",
}

impl Next {
    /// Its address.
    #[inline]
    pub(super) fn address(self) -> usize {
        match self.known() {
            0 => self.find(),
            known => known,
        }
    }

    #[inline]
    fn known(self) -> usize {
        let [first, ..] = &FAULT.next;
        let next = FAULT.next.get(self as usize).unwrap_or(first);
        next.load(Ordering::Relaxed)
    }

    /// Looks all of them up. The first handler of a process cannot run before the first call that installs one, so no
    /// look-up happens inside a handler.
    #[cold]
    #[inline(never)]
    fn find(self) -> usize {
        let own = missing as *const () as usize;
        for (name, address) in NAMES.iter().zip(&FAULT.next) {
            let found = match elf::after(own, name) {
                0 => elf::in_libc(name),
                found => found,
            };
            let found = match found {
                0 => own,
                found => found,
            };
            address.store(found, Ordering::Relaxed);
        }
        self.known()
    }
}

/// The fallback if the C library has no such function. -1 is `SIG_ERR`, too.
unsafe extern "C" fn missing() -> isize {
    super::host::set_errno(libc::ENOSYS);
    -1
}

/// The type of most of them.
pub(super) type OfSignal = unsafe extern "C" fn(c_int, usize) -> usize;

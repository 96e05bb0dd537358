//! A signal's disposition as the kernel keeps it, and the replacement of the host's by ours.

use core::ffi::c_int;

use super::sys::Signals;

/// Our flags that may differ from the host's. Every kernel supports them, so it returns them as they were set.
const STAND_IN: c_int = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART | libc::SA_RESETHAND;

/// A disposition, in the form in which the kernel returns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Action {
    /// `SIG_DFL`, `SIG_IGN` or a function.
    pub(super) handler: usize,
    pub(super) flags: c_int,
    pub(super) mask: Signals,
    pub(super) restorer: usize,
}

impl Action {
    /// The initial disposition of a process.
    pub(super) const DEFAULT: Self = Self {
        handler: libc::SIG_DFL,
        flags: 0,
        mask: 0,
        restorer: 0,
    };

    pub(super) fn from_libc(action: &libc::sigaction) -> Self {
        Self {
            handler: action.sa_sigaction,
            flags: action.sa_flags,
            // SAFETY: the C library's set is longer than the kernel's and begins with it.
            mask: unsafe { (&raw const action.sa_mask).cast::<Signals>().read() },
            restorer: action.sa_restorer.map_or(0, |restorer| restorer as usize),
        }
    }

    pub(super) fn to_libc(self) -> libc::sigaction {
        // SAFETY: all zeros are a valid value: no handler, no flags, an empty set, no restorer.
        let mut action: libc::sigaction = unsafe { core::mem::zeroed() };
        action.sa_sigaction = self.handler;
        action.sa_flags = self.flags;
        // SAFETY: the C library's set is longer than the kernel's and begins with it.
        unsafe { (&raw mut action.sa_mask).cast::<Signals>().write(self.mask) };
        // SAFETY: an optional function is an address, 0 for none; it is handed on and never called.
        action.sa_restorer =
            unsafe { core::mem::transmute::<usize, Option<extern "C" fn()>>(self.restorer) };
        action
    }

    /// Whether it is a function of the host's.
    pub(super) fn is_function(&self) -> bool {
        self.handler != libc::SIG_DFL && self.handler != libc::SIG_IGN
    }

    /// Whether it is our handler, which is at `ours`.
    pub(super) fn is_at(&self, ours: usize) -> bool {
        self.handler != libc::SIG_DFL && self.handler == ours
    }

    /// The disposition that replaces this one at the kernel: our handler (at `ours`), entered with the mask, on the
    /// stack and with the restart of system calls that the host requested. The handler then only has to jump to the
    /// host's.
    pub(super) fn stand_in(&self, ours: usize) -> Self {
        let mut flags = self.flags & !libc::SA_RESETHAND | libc::SA_SIGINFO;
        if !self.is_function() {
            flags |= libc::SA_ONSTACK | libc::SA_RESTART;
        }
        Self {
            handler: ours,
            flags,
            ..*self
        }
    }

    /// This disposition as the kernel would return it, derived from how it returned the replacement: kernels differ in
    /// the flags and signals that they omit.
    pub(super) fn as_kept(&self, stand_in: &Self) -> Self {
        Self {
            handler: self.handler,
            flags: (stand_in.flags & !STAND_IN) | (self.flags & STAND_IN),
            ..*stand_in
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(flags: c_int) -> Action {
        Action {
            handler: 0x1000,
            flags,
            mask: 6,
            restorer: 0x2000,
        }
    }

    #[test]
    fn the_c_librarys_form_keeps_everything() {
        let action = host(libc::SA_NODEFER | libc::SA_RESETHAND);
        assert_eq!(Action::from_libc(&action.to_libc()), action);
        assert_eq!(
            Action::from_libc(&Action::DEFAULT.to_libc()),
            Action::DEFAULT
        );
    }

    #[test]
    fn the_kernel_gets_the_hosts_flags_but_never_drops_ours() {
        let stand_in = host(libc::SA_NODEFER | libc::SA_RESETHAND).stand_in(0x5000);
        assert!(stand_in.is_at(0x5000) && stand_in.mask == 6);
        assert_eq!(stand_in.flags, libc::SA_NODEFER | libc::SA_SIGINFO);
        let default = Action::DEFAULT.stand_in(0x5000);
        assert_eq!(
            default.flags,
            libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART
        );
    }

    #[test]
    fn what_the_kernel_leaves_out_is_left_out() {
        const UNKNOWN: c_int = 0x2000_0000;
        let asked = host(UNKNOWN | libc::SA_NODEFER | libc::SA_RESETHAND);
        let mut kept = asked.stand_in(0x5000);
        kept.flags &= !UNKNOWN;
        kept.mask = 2;
        let expected = Action {
            flags: libc::SA_NODEFER | libc::SA_RESETHAND,
            mask: 2,
            ..asked
        };
        assert_eq!(asked.as_kept(&kept), expected);
    }
}

//! Signals that gpumem's own calls may raise, hidden from the program.

use core::mem::MaybeUninit;

use crate::{KeepErrno, raw};

/// The signals of a write: SIGPIPE and SIGXFSZ, which the kernel sends only to the thread whose write caused it, and
/// SIGTTOU, which it does not send at all to a process whose writing thread blocks it.
const OF_WRITES: [libc::c_int; 3] = [libc::SIGPIPE, libc::SIGXFSZ, libc::SIGTTOU];

/// Blocks the signals of a write in this thread until it is dropped. One that was raised in between is consumed before
/// the mask is restored.
pub struct Blocked {
    /// The previous mask; None if the signals could not be blocked.
    before: Option<libc::sigset_t>,
    /// Those that were not pending before.
    raised: libc::sigset_t,
}

impl Blocked {
    /// Blocks them.
    #[expect(
        clippy::new_without_default,
        reason = "it is made for what it does when it goes"
    )]
    pub fn new() -> Self {
        let _keep = KeepErrno::new();
        let set = set_of(&OF_WRITES);
        let (mut before, mut pending) = (MaybeUninit::uninit(), set);
        // SAFETY: all sets are valid; only the calling thread's mask changes.
        let blocked = unsafe {
            libc::sigpending(&raw mut pending);
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, before.as_mut_ptr())
        };
        // SIGTTOU may be another process's: it is left alone.
        let mut raised = set_of(&[]);
        for signal in [libc::SIGPIPE, libc::SIGXFSZ] {
            if !is_in(&pending, signal) {
                // SAFETY: the set is initialised.
                unsafe { libc::sigaddset(&raw mut raised, signal) };
            }
        }
        Self {
            // SAFETY: pthread_sigmask succeeded, so it filled `before` in.
            before: (blocked == 0).then(|| unsafe { before.assume_init() }),
            raised,
        }
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        let Some(before) = self.before else { return };
        let _keep = KeepErrno::new();
        let at_once = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let arguments = [
            &raw const self.raised as usize,
            0,
            &raw const at_once as usize,
            KERNELS_SET,
            0,
            0,
        ];
        // SAFETY: both are valid; the information about the signal is not requested. The C library's function would be a
        // cancellation point.
        while unsafe { raw::call(libc::SYS_rt_sigtimedwait, arguments) } > 0 {}
        // SAFETY: the mask is this thread's of before.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, core::ptr::null_mut())
        };
    }
}

/// Bytes of the kernel's set of signals: the beginning of the C library's.
const KERNELS_SET: usize = 8;

/// The set that contains these signals.
fn set_of(signals: &[libc::c_int]) -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: sigemptyset initialises the set.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for &signal in signals {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        set.assume_init()
    }
}

fn is_in(set: &libc::sigset_t, signal: libc::c_int) -> bool {
    // SAFETY: the set is initialised, and only read.
    unsafe { libc::sigismember(set, signal) == 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_raised_meanwhile_is_gone_and_what_was_pending_stays() {
        let raise = || {
            // SAFETY: blocked in this thread, to which alone it goes.
            unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGXFSZ) };
        };
        let is_pending = || {
            let mut set = set_of(&[libc::SIGXFSZ]);
            // SAFETY: the set is valid for writing.
            unsafe { libc::sigpending(&raw mut set) };
            is_in(&set, libc::SIGXFSZ)
        };
        {
            let _blocked = Blocked::new();
            raise();
            assert!(is_pending());
        }
        assert!(!is_pending());
        let set = set_of(&[libc::SIGXFSZ]);
        // SAFETY: both sets are valid; only this thread's mask changes.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, core::ptr::null_mut()) };
        raise();
        drop(Blocked::new());
        assert!(is_pending());
    }
}

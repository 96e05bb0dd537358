//! Signals that gpumem's own calls may raise, hidden from the program.

use core::mem::MaybeUninit;

use crate::KeepErrno;

/// Blocks one signal in this thread until it is dropped: SIGPIPE or SIGXFSZ, which the kernel sends only to the thread
/// whose write caused it. A signal raised in between is consumed before the mask is restored.
pub struct Blocked {
    signal: libc::c_int,
    /// The previous mask; None if the signal could not be blocked.
    before: Option<libc::sigset_t>,
    was_pending: bool,
}

impl Blocked {
    /// Blocks the signal.
    pub fn new(signal: libc::c_int) -> Self {
        let _keep = KeepErrno::new();
        let set = only(signal);
        let (mut before, mut pending) = (MaybeUninit::uninit(), only(signal));
        // SAFETY: all sets are valid; only the calling thread's mask changes.
        let (asked, blocked) = unsafe {
            (
                libc::sigpending(&raw mut pending),
                libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, before.as_mut_ptr()),
            )
        };
        Self {
            signal,
            // SAFETY: pthread_sigmask succeeded, so it filled `before` in.
            before: (blocked == 0).then(|| unsafe { before.assume_init() }),
            was_pending: asked != 0 || is_in(&pending, signal),
        }
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        let Some(before) = self.before else { return };
        let _keep = KeepErrno::new();
        if !self.was_pending {
            let set = only(self.signal);
            let at_once = libc::timespec {
                tv_sec: 0,
                tv_nsec: 0,
            };
            // SAFETY: both are valid; the information about the signal is not requested.
            while unsafe {
                libc::sigtimedwait(&raw const set, core::ptr::null_mut(), &raw const at_once)
            } == self.signal
            {}
        }
        // SAFETY: the mask is this thread's of before.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, core::ptr::null_mut())
        };
    }
}

/// The set that contains only that signal.
fn only(signal: libc::c_int) -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: sigemptyset initialises the set.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), signal);
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
            let mut set = only(libc::SIGXFSZ);
            // SAFETY: the set is valid for writing.
            unsafe { libc::sigpending(&raw mut set) };
            is_in(&set, libc::SIGXFSZ)
        };
        {
            let _blocked = Blocked::new(libc::SIGXFSZ);
            raise();
            assert!(is_pending());
        }
        assert!(!is_pending());
        let set = only(libc::SIGXFSZ);
        // SAFETY: both sets are valid; only this thread's mask changes.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, core::ptr::null_mut()) };
        raise();
        drop(Blocked::new(libc::SIGXFSZ));
        assert!(is_pending());
    }
}

//! The host's calls for SIGBUS once our handler is installed: they read and change the disposition behind it. Each
//! returns None before that: then the C library's own function is used.
//!
//! The forms other than `sigaction` follow glibc's definitions in terms of it.

use core::ffi::c_int;
use core::sync::atomic::Ordering;

use super::action::Action;
use super::install::{self, Installed};
use super::state::FAULT;
use super::sys;

/// `SIG_HOLD` of `sigset`.
const SIG_HOLD: usize = 2;
/// `SA_INTERRUPT`: without effect, but the host reads it back where the kernel keeps it.
const SA_INTERRUPT: c_int = 0x2000_0000;

pub(super) fn set_errno(errno: c_int) {
    // SAFETY: errno's address is valid for the thread's life.
    unsafe { *libc::__errno_location() = errno };
}

fn exchange(new: Option<Action>) -> Option<Action> {
    match install::installed() {
        Installed::Not => None,
        Installed::Here => Some(install::exchange(new)),
        Installed::ByParent => Some(install::exchange_in_child(new)),
    }
}

/// `sigaction`.
///
/// # Safety
/// As `sigaction(2)`.
pub(super) unsafe fn sigaction(
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> Option<c_int> {
    if install::installed() == Installed::Not {
        return None;
    }
    // SAFETY: null, or valid for reading: the caller's promise.
    let new = unsafe { new.as_ref() }.map(Action::from_libc);
    let before = exchange(new)?;
    if !old.is_null() {
        // SAFETY: valid for writing: the caller's promise.
        unsafe { old.write(before.to_libc()) };
    }
    Some(0)
}

fn with_handler(handler: usize, flags: c_int, mask: sys::Signals) -> Option<usize> {
    if install::installed() != Installed::Not && handler == libc::SIG_ERR {
        set_errno(libc::EINVAL);
        return Some(libc::SIG_ERR);
    }
    let new = Action {
        handler,
        flags,
        mask,
        restorer: 0,
    };
    exchange(Some(new)).map(|before| before.handler)
}

/// `signal`, which keeps the handler and restarts system calls.
pub(super) fn signal(handler: usize) -> Option<usize> {
    let flags = match FAULT.interrupts.load(Ordering::Relaxed) {
        true => 0,
        false => libc::SA_RESTART,
    };
    with_handler(handler, flags, sys::only(libc::SIGBUS))
}

/// `signal` of System V, which uses the handler once.
pub(super) fn sysv_signal(handler: usize) -> Option<usize> {
    let flags = libc::SA_RESETHAND | libc::SA_NODEFER | SA_INTERRUPT;
    with_handler(handler, flags, 0)
}

/// `sigset`, which also blocks or unblocks the signal.
pub(super) fn sigset(disposition: usize) -> Option<usize> {
    let signal = sys::only(libc::SIGBUS);
    let (how, before) = match disposition {
        SIG_HOLD => (libc::SIG_BLOCK, exchange(None)?.handler),
        _ => (libc::SIG_UNBLOCK, with_handler(disposition, 0, 0)?),
    };
    if before == libc::SIG_ERR {
        return Some(before);
    }
    match sys::mask(how, signal) & signal {
        0 => Some(before),
        _ => Some(SIG_HOLD),
    }
}

/// `sigignore`.
pub(super) fn sigignore() -> Option<c_int> {
    with_handler(libc::SIG_IGN, 0, 0).map(|_| 0)
}

/// `siginterrupt`. Its setting is recorded at any time.
pub(super) fn siginterrupt(interrupts: bool) -> Option<c_int> {
    FAULT.interrupts.store(interrupts, Ordering::Relaxed);
    let mut action = exchange(None)?;
    match interrupts {
        true => action.flags &= !libc::SA_RESTART,
        false => action.flags |= libc::SA_RESTART,
    }
    exchange(Some(action)).map(|_| 0)
}

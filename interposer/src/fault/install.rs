//! Our handler at the kernel, and the host's disposition behind it.

use core::sync::atomic::Ordering;

use super::action::Action;
use super::chain::Found;
use super::state::FAULT;
use super::sys;
use crate::resolve::elf;

/// Whose the handler is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Installed {
    /// Nobody's: it is not installed.
    Not,
    /// This process's.
    Here,
    /// The parent's. A child by vfork shares this memory, so nothing is stored here; its disposition is its own.
    ByParent,
}

/// Whether the handler is installed. One load where it is not.
pub(super) fn installed() -> Installed {
    match FAULT.installed.load(Ordering::Acquire) {
        0 => Installed::Not,
        process if process == sys::process() => Installed::Here,
        _ => Installed::ByParent,
    }
}

fn ours() -> usize {
    FAULT.ours.load(Ordering::Relaxed)
}

fn is_ours(action: &Action) -> bool {
    action.is_at(ours())
}

/// The lock, with all signals blocked as long as it is held: no handler can want it on the same thread.
struct Lock {
    mask: sys::Signals,
}

impl Lock {
    fn take() -> Self {
        let mask = sys::mask(libc::SIG_SETMASK, sys::ALL_SIGNALS);
        while FAULT.changes.swap(true, Ordering::Acquire) {
            sys::yield_now();
        }
        Self { mask }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        FAULT.changes.store(false, Ordering::Release);
        sys::mask(libc::SIG_SETMASK, self.mask);
    }
}

/// Asks the kernel, and sets `new` if there is one; the disposition before. None if the C library has no function for
/// it, or the kernel refuses.
fn kernel(new: Option<&Action>) -> Option<Action> {
    type Sigaction =
        unsafe extern "C" fn(libc::c_int, *const libc::sigaction, *mut libc::sigaction) -> i32;
    let address = match FAULT.libc.load(Ordering::Relaxed) {
        0 => return None,
        address => address,
    };
    // SAFETY: the address is that of the C library's sigaction, whose type this is.
    let sigaction = unsafe { core::mem::transmute::<usize, Sigaction>(address) };
    let new = new.map(|action| action.to_libc());
    let mut old = Action::DEFAULT.to_libc();
    let pointer = new
        .as_ref()
        .map_or(core::ptr::null(), |new| &raw const *new);
    // SAFETY: both structures are valid for the call. A handler is ours, or one that the host has set.
    let result = unsafe { sigaction(libc::SIGBUS, pointer, &raw mut old) };
    (result == 0).then(|| Action::from_libc(&old))
}

/// Installs the handler, which is at `ours`. False if that is not possible, or a parent has installed it.
pub(super) fn install(ours: usize) -> bool {
    FAULT.ours.store(ours, Ordering::Relaxed);
    if FAULT.libc.load(Ordering::Relaxed) == 0 {
        FAULT
            .libc
            .store(elf::in_libc(c"sigaction"), Ordering::Relaxed);
    }
    let _lock = Lock::take();
    match installed() {
        Installed::Here => return true,
        Installed::ByParent => return false,
        Installed::Not => {}
    }
    let Some(found) = kernel(None) else {
        return false;
    };
    // From here on the host's calls wait for the lock.
    FAULT.installed.store(sys::process(), Ordering::Release);
    stand_before(found);
    true
}

/// Makes `found`, which the kernel has, the host's disposition, and puts our handler in its place. For who holds the
/// lock.
fn stand_before(mut found: Action) {
    loop {
        FAULT.chain.publish(&found);
        match kernel(Some(&found.stand_in(ours()))) {
            // Set by a system call a moment ago.
            Some(other) if other != found && !is_ours(&other) => found = other,
            _ => break,
        }
    }
    if let Some(kept) = kernel(None).filter(is_ours) {
        FAULT.restorer.store(kept.restorer, Ordering::Relaxed);
    }
}

/// Looks whether the kernel still has our handler. A disposition that was set by a system call is made the host's, and
/// ours is put before it. For a thread of our own, each 50 ms or so.
pub(super) fn check() {
    let is_replaced = || kernel(None).filter(|found| !is_ours(found));
    if installed() != Installed::Here || is_replaced().is_none() {
        return;
    }
    let _lock = Lock::take();
    if FAULT.ending.load(Ordering::SeqCst) {
        return;
    }
    if let Some(found) = is_replaced() {
        note_beneath(&FAULT.chain.load().action);
        stand_before(found);
    }
}

fn note_beneath(action: &Action) {
    if !FAULT.has_beneath.load(Ordering::Relaxed) {
        FAULT.beneath.publish(action);
        FAULT.has_beneath.store(true, Ordering::Release);
    }
}

/// The host's `sigaction`: its disposition, and a new one if there is one. For [`Installed::Here`].
pub(super) fn exchange(new: Option<Action>) -> Action {
    let _lock = Lock::take();
    // What was set by a system call and not yet noticed is the host's, too.
    let past = |found: Option<Action>| found.filter(|found| !is_ours(found));
    let Some(mut new) = new else {
        return past(kernel(None)).unwrap_or_else(|| FAULT.chain.load().action);
    };
    if is_ours(&new) {
        // Read from the kernel by a system call, and given back.
        new = behind(false).action;
    }
    let found = past(kernel(Some(&new.stand_in(ours()))));
    let kept = kernel(None).filter(is_ours);
    let before = FAULT
        .chain
        .publish(&kept.map_or(new, |kept| new.as_kept(&kept)));
    if found.is_some() {
        note_beneath(&before);
    }
    found.unwrap_or(before)
}

/// The same for [`Installed::ByParent`]: the kernel has the child's disposition, and nothing is stored.
pub(super) fn exchange_in_child(new: Option<Action>) -> Action {
    match kernel(new.as_ref()) {
        Some(found) if !is_ours(&found) => found,
        _ => FAULT.chain.load().action,
    }
}

/// Whether our handler was entered by the kernel, and not called by a handler that stands before it.
pub(super) fn is_entered_by_kernel(returns_to: usize) -> bool {
    let restorer = FAULT.restorer.load(Ordering::Relaxed);
    restorer == 0 || restorer == returns_to
}

/// The disposition behind ours, for a signal that the kernel has delivered or that a handler before ours hands on.
pub(super) fn behind(delivered: bool) -> Found {
    match !delivered && FAULT.has_beneath.load(Ordering::Acquire) {
        true => FAULT.beneath.load(),
        false => FAULT.chain.load(),
    }
}

/// Resets the handler that was found for a signal that the kernel has delivered, as it does itself for
/// `SA_RESETHAND`. False if another thread was first: then it is to be looked for again.
pub(super) fn reset(found: &Found) -> bool {
    match installed() {
        Installed::ByParent => {
            let reset = Action {
                handler: libc::SIG_DFL,
                ..found.action
            };
            kernel(Some(&reset)).is_some()
        }
        Installed::Here | Installed::Not => FAULT.chain.reset(found),
    }
}

/// Gives the kernel the default disposition, for good: the process is about to end by it.
pub(super) fn restore_default() {
    if installed() == Installed::Here {
        FAULT.ending.store(true, Ordering::SeqCst);
    }
    kernel(Some(&Action::DEFAULT));
}

//! Our handler at the kernel, and the host's disposition behind it.

use core::sync::atomic::Ordering;

use super::action::Action;
use super::chain::Found;
use super::state::FAULT;
use super::sys;
use crate::resolve::elf;

/// The process that installed the handler.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Installed {
    /// It is not installed.
    Not,
    /// This process.
    Here,
    /// The parent. A child by vfork shares this memory, so nothing is stored here; the child has its own disposition.
    ByParent,
}

/// Whether the handler is installed. One load if it is not.
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

/// The lock, with all signals blocked while it is held: no handler on the same thread can try to take it.
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

/// Queries the kernel, and sets `new` if given; returns the previous disposition. None if the C library has no
/// function for it, or the kernel refuses.
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

/// Makes `found`, which the kernel has, the host's disposition, and replaces it by our handler. The caller must hold
/// the lock.
fn stand_before(mut found: Action) {
    loop {
        FAULT.chain.publish(&found);
        match kernel(Some(&found.stand_in(ours()))) {
            // Set by a system call in between.
            Some(other) if other != found && !is_ours(&other) => found = other,
            _ => break,
        }
    }
    if let Some(kept) = kernel(None).filter(is_ours) {
        FAULT.restorer.store(kept.restorer, Ordering::Relaxed);
    }
}

/// Checks whether the kernel still has our handler. A disposition that was set by a system call becomes the host's,
/// and ours is installed again. Called by one of our threads about every 50 ms.
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

/// The host's `sigaction`: returns its disposition, and sets a new one if given. For [`Installed::Here`].
pub(super) fn exchange(new: Option<Action>) -> Action {
    let _lock = Lock::take();
    // A disposition that was set by a system call and not yet noticed is the host's, too.
    let past = |found: Option<Action>| found.filter(|found| !is_ours(found));
    let Some(mut new) = new else {
        return past(kernel(None)).unwrap_or_else(|| FAULT.chain.load().action);
    };
    if is_ours(&new) {
        // Read from the kernel by a system call, and set again.
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

/// Whether the kernel entered our handler, and not a handler that was installed over it.
pub(super) fn is_entered_by_kernel(returns_to: usize) -> bool {
    let restorer = FAULT.restorer.load(Ordering::Relaxed);
    restorer == 0 || restorer == returns_to
}

/// The disposition behind ours, for a signal that the kernel has delivered or that a handler over ours passes on.
pub(super) fn behind(delivered: bool) -> Found {
    match !delivered && FAULT.has_beneath.load(Ordering::Acquire) {
        true => FAULT.beneath.load(),
        false => FAULT.chain.load(),
    }
}

/// Resets the handler that was found for a delivered signal, as the kernel does for `SA_RESETHAND`. False if another
/// thread was first: then it must be looked up again.
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

/// Sets the kernel's disposition to the default permanently: the process is about to end by it.
pub(super) fn restore_default() {
    if installed() == Installed::Here {
        FAULT.ending.store(true, Ordering::SeqCst);
    }
    kernel(Some(&Action::DEFAULT));
}

//! Our own threads. They block all signals except SIGBUS, because a fault would otherwise end the process. So the
//! kernel may select them for a SIGBUS that was sent to the process and is meant for the host's threads.

use core::sync::atomic::{AtomicI32, Ordering};

use super::install::{self, Installed};
use super::state::FAULT;
use super::sys;

/// How long one of them waits for one of the host's threads to take a signal.
const PATIENCE_MS: u32 = 100;

/// While it exists, the thread that created it accepts SIGBUS.
pub(crate) struct Own(Option<&'static AtomicI32>);

/// For one of our threads, which has blocked all signals. Does nothing before there is something to guard.
pub(crate) fn own() -> Own {
    if install::installed() != Installed::Here {
        return Own(None);
    }
    let thread = sys::thread();
    let take = |place: &&AtomicI32| {
        place
            .compare_exchange(0, thread, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    };
    let place = FAULT.threads.iter().find(take);
    accept();
    Own(place)
}

impl Drop for Own {
    fn drop(&mut self) {
        if let Some(place) = self.0 {
            sys::mask(libc::SIG_BLOCK, sys::only(libc::SIGBUS));
            place.store(0, Ordering::Release);
        }
    }
}

/// Makes the calling thread accept SIGBUS if it is ours and no SIGBUS is pending. For a pending one the kernel may have
/// woken one of the host's threads: if this thread took it first, a `sigtimedwait` there would end with `EINTR`.
pub(super) fn accept() {
    if is_own() && !sys::is_pending(libc::SIGBUS) {
        sys::mask(libc::SIG_UNBLOCK, sys::only(libc::SIGBUS));
    }
}

/// Whether the calling thread is ours.
pub(super) fn is_own() -> bool {
    let thread = sys::thread();
    FAULT
        .threads
        .iter()
        .any(|place| place.load(Ordering::Relaxed) == thread)
        && install::installed() == Installed::Here
}

/// Passes a sent SIGBUS on to the host's threads. If all of them block it, it stays pending until they unblock it.
/// This thread waits for that in its handler, where it accesses no guarded memory, but only briefly: then it blocks
/// the signal, too, until [`accept`].
///
/// # Safety
/// The context is the kernel's, of the signal that is being handled on this thread.
pub(super) unsafe fn hand_on(context: *mut libc::ucontext_t) {
    sys::mask(libc::SIG_BLOCK, sys::only(libc::SIGBUS));
    sys::raise_for_any();
    for _ in 0..PATIENCE_MS {
        if !sys::is_pending(libc::SIGBUS) {
            return;
        }
        sys::sleep_a_millisecond();
    }
    // SAFETY: the caller's promise. The kernel's set is the beginning of the C library's.
    unsafe {
        let mask = (&raw mut (*context).uc_sigmask).cast::<sys::Signals>();
        mask.write(mask.read() | sys::only(libc::SIGBUS));
    }
}

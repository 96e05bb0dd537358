//! Faults in the recorder's own shared mappings. Somebody may truncate the file under a mapping, or its disk may go:
//! the next access raises SIGBUS, which would end the program.
//!
//! ```text
//!               ┌─ in a range of ours: recording ends, zeroed memory takes the mapping's place, return
//!  SIGBUS ─► entry
//!               └─ anything else ─► the host's disposition, as if ours were not there
//! ```
//! The host's disposition is kept in [`chain`]. It is what the kernel had when the handler was installed, and what the
//! host sets from then on: `sigaction`, `signal` and the other functions of glibc's that set dispositions are exported
//! ([`exports`]), act on the chain for SIGBUS, and answer from it. The kernel has our handler with the host's mask and
//! flags, so a handler of the host's starts as if the kernel had entered it.
//!
//! # What is not the same
//! - A thread that has blocked SIGBUS is ended by the kernel at any fault, a store of ours included: nothing can be done
//!   about it in the process. The C library blocks it for moments that hold no CUDA call (`posix_spawn`, the start and end
//!   of threads), and so does the thread of faulthandler's `dump_traceback_later`, which makes none.
//! - A SIGBUS that somebody sends while all threads of the host's block it, and that stays pending, is blocked by our
//!   threads as well for as long.
//! - What installs a handler by a system call of its own stays in force until [`check`] has noticed; then it is taken for
//!   the host's. If it is replaced by such a call later, by what it has read from the kernel, it stays the host's.
//! - A program that the host starts while it ignores SIGBUS finds the default disposition, as a handler leaves it.
//! - A SIGBUS that somebody sends and the host ignores interrupts system calls that no flag restarts (`poll`).

mod action;
mod chain;
pub(crate) mod exports;
mod handler;
mod host;
mod install;
mod next;
mod ranges;
mod state;
mod sys;
mod threads;

use core::sync::atomic::AtomicU32;
use std::path::Path;
use std::sync::PoisonError;

pub(crate) use threads::own;

use crate::account::{self, Once};
use crate::message;
use install::Installed;
use state::FAULT;

/// Guards a mapping of ours, whole pages from `base` on, and installs the handler with the first. False if it is not
/// guarded: there are four already, or the handler cannot be installed.
pub(crate) fn guard(base: *mut u8, len: usize) -> bool {
    let _one = FAULT.adds.lock().unwrap_or_else(PoisonError::into_inner);
    len != 0 && install::install(handler::address()) && ranges::add(base as usize, len)
}

/// Names the words in which the handler stores at a fault, before it replaces the mapping: 1 in the second, then 0 in
/// the first. Their owner then knows that recording has ended, and why, with no look at [`broken`].
pub(crate) fn ends(words: [&'static AtomicU32; 2]) {
    ranges::set_words(words);
}

/// Whether a guarded mapping was lost. One load.
#[inline]
pub(crate) fn broken() -> bool {
    ranges::broken()
}

/// Keeps the handler in force, and on the calling thread, which is one of our own. Called before each look at guarded
/// memory after a wait, every 50 ms or so: a few system calls.
pub(crate) fn check() {
    install::check();
    threads::accept_again();
}

/// Says on stderr, once, that recording has ended and why, if a fault has ended it. Not for a signal handler.
pub(crate) fn tell(capture: &Path) {
    // A child that was forked meanwhile leaves it to its parent.
    if !broken() || install::installed() != Installed::Here || !account::is_first(Once::MemoryLost)
    {
        return;
    }
    let why = match ranges::code() {
        libc::BUS_MCEERR_AR | libc::BUS_MCEERR_AO => "the machine's memory failed",
        _ => "its file was truncated, or its disk was removed",
    };
    message::line(&format!(
        "recording ended: the memory of {} was lost ({why}). The program continues.",
        capture.display()
    ));
}

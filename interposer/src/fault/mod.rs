//! Faults in the recorder's own shared mappings. If the file under a mapping is truncated, or its disk fails, the next
//! access raises SIGBUS, which would end the program.
//!
//! ```text
//!               ┌─ in one of our ranges: recording ends, zeroed memory replaces the mapping, return
//!  SIGBUS ─► entry
//!               └─ anything else ─► the host's disposition, as if ours did not exist
//! ```
//! The host's disposition is kept in [`chain`]. It is the kernel's disposition when the handler was installed, and
//! later the one that the host sets: `sigaction`, `signal` and the other functions of glibc that set dispositions are
//! exported ([`exports`]), act on the chain for SIGBUS, and return values from it. The kernel has our handler with the
//! host's mask and flags, so a handler of the host starts as if the kernel had entered it.
//!
//! # Differences
//! - A thread that has blocked SIGBUS is ended by the kernel at any fault, including one of our stores: the process
//!   cannot prevent that. The C library blocks it for short times without CUDA calls (`posix_spawn`, the start and end
//!   of threads), and so does the thread of faulthandler's `dump_traceback_later`, which makes no CUDA calls.
//! - A SIGBUS that another process sends while all threads of the host block it, and that stays pending, is blocked by
//!   our threads as well for that time. If two such signals follow each other at once, `sigtimedwait` may end with
//!   `EINTR`, though no handler ran.
//! - A handler that is installed by a direct system call stays in force until [`check`] notices it; then it is treated
//!   as the host's. If it is later replaced by such a call with a value that was read from the kernel, it stays the
//!   host's.
//! - A program that the host starts while it ignores SIGBUS gets the default disposition, as with a handler.
//! - A SIGBUS that another process sends and the host ignores interrupts system calls that no flag restarts (`poll`).

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

/// Guards one of our mappings, whole pages from `base` on, and installs the handler with the first. False if it is not
/// guarded: there are four already, or the handler cannot be installed.
pub(crate) fn guard(base: *mut u8, len: usize) -> bool {
    let _one = FAULT.adds.lock().unwrap_or_else(PoisonError::into_inner);
    len != 0 && install::install(handler::address()) && ranges::add(base as usize, len)
}

/// Sets the words in which the handler stores at a fault, before it replaces the mapping: 1 in the second, then 0 in
/// the first. Their owner can then detect the end of recording and its reason without reading [`broken`].
pub(crate) fn ends(words: [&'static AtomicU32; 2]) {
    ranges::set_words(words);
}

/// Whether a guarded mapping was lost. One load.
#[inline]
pub(crate) fn broken() -> bool {
    ranges::broken()
}

/// Keeps the handler installed, and in force on the calling thread, which is one of our own. Called before each access
/// to guarded memory after a wait, about every 50 ms: a few system calls.
pub(crate) fn check() {
    install::check();
    threads::accept();
}

/// Prints to stderr, once, that recording has ended because its memory was lost, and why. Not for a signal handler.
pub(crate) fn tell(capture: &Path) {
    // A child that was forked meanwhile leaves the message to its parent.
    if install::installed() != Installed::Here || !account::is_first(Once::MemoryLost) {
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

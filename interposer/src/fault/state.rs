//! What the handler reads, which may run at any moment: words that need no lock, and are there before any thread is.

use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicUsize};
use std::sync::Mutex;

use super::chain::Chain;

/// A mapping: its start, 0 for none, and its length.
pub(super) struct Range {
    pub(super) base: AtomicUsize,
    pub(super) len: AtomicUsize,
}

/// Functions of the C library that stand behind ours: [`super::next`].
pub(super) const NEXT: usize = 10;

pub(super) struct Fault {
    /// The address of our handler; 0 before it is installed.
    pub(super) ours: AtomicUsize,
    /// The process that installed the handler; 0 before.
    pub(super) installed: AtomicI32,
    /// The host's disposition.
    pub(super) chain: Chain,
    /// What was the host's when another one was first found at the kernel in our handler's place: whoever set that one
    /// by a system call may have read our handler's address and calls it for what is not its own.
    pub(super) beneath: Chain,
    pub(super) has_beneath: AtomicBool,
    /// The process is about to end by the default disposition, which nobody may replace any more.
    pub(super) ending: AtomicBool,
    /// Where the kernel has our handler return to; 0: not known yet.
    pub(super) restorer: AtomicUsize,
    /// The C library's own `sigaction`: only the kernel is behind it.
    pub(super) libc: AtomicUsize,
    /// Held by who changes the disposition.
    pub(super) changes: AtomicBool,
    /// Held by who adds a range.
    pub(super) adds: Mutex<()>,
    pub(super) ranges: [Range; 4],
    /// Whether a mapping was lost.
    pub(super) broken: AtomicBool,
    /// `si_code` of the fault.
    pub(super) code: AtomicI32,
    /// What ends recording when 0 is stored there.
    pub(super) recording: AtomicPtr<AtomicU32>,
    /// What says that memory is lost when 1 is stored there.
    pub(super) lost: AtomicPtr<AtomicU32>,
    /// Whether `siginterrupt` has said that SIGBUS interrupts system calls: `signal` then leaves `SA_RESTART` out.
    pub(super) interrupts: AtomicBool,
    /// The numbers of our own threads; 0 for none.
    pub(super) threads: [AtomicI32; 16],
    /// The functions behind ours; 0: not looked up yet.
    pub(super) next: [AtomicUsize; NEXT],
}

pub(super) static FAULT: Fault = Fault {
    ours: AtomicUsize::new(0),
    installed: AtomicI32::new(0),
    chain: Chain::new(),
    beneath: Chain::new(),
    has_beneath: AtomicBool::new(false),
    ending: AtomicBool::new(false),
    restorer: AtomicUsize::new(0),
    libc: AtomicUsize::new(0),
    changes: AtomicBool::new(false),
    adds: Mutex::new(()),
    ranges: [const {
        Range {
            base: AtomicUsize::new(0),
            len: AtomicUsize::new(0),
        }
    }; 4],
    broken: AtomicBool::new(false),
    code: AtomicI32::new(0),
    recording: AtomicPtr::new(null_mut()),
    lost: AtomicPtr::new(null_mut()),
    interrupts: AtomicBool::new(false),
    threads: [const { AtomicI32::new(0) }; 16],
    next: [const { AtomicUsize::new(0) }; NEXT],
};

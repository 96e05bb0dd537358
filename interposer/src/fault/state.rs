//! The state that the handler reads, which may run at any time: words that need no lock, and exist before any thread
//! does.

use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicUsize};
use std::sync::Mutex;

use super::chain::Chain;

/// A mapping: its start, 0 for none, and its length.
pub(super) struct Range {
    pub(super) base: AtomicUsize,
    pub(super) len: AtomicUsize,
}

/// The number of the C library's functions after ours: [`super::next`].
pub(super) const NEXT: usize = 10;

pub(super) struct Fault {
    /// The address of our handler; 0 before it is installed.
    pub(super) ours: AtomicUsize,
    /// The process that installed the handler; 0 before.
    pub(super) installed: AtomicI32,
    /// The host's disposition.
    pub(super) chain: Chain,
    /// The host's previous disposition when another one first replaced our handler at the kernel: code that set that
    /// one by a system call may have read our handler's address and call it for other faults.
    pub(super) beneath: Chain,
    pub(super) has_beneath: AtomicBool,
    /// The process is about to end by the default disposition, which must not be replaced any more.
    pub(super) ending: AtomicBool,
    /// The address to which the kernel has our handler return; 0 if it is not known yet.
    pub(super) restorer: AtomicUsize,
    /// The C library's own `sigaction`: only the kernel is behind it.
    pub(super) libc: AtomicUsize,
    /// Held by a thread that changes the disposition.
    pub(super) changes: AtomicBool,
    /// Held by a thread that adds a range.
    pub(super) adds: Mutex<()>,
    pub(super) ranges: [Range; 4],
    /// Whether a mapping was lost.
    pub(super) broken: AtomicBool,
    /// `si_code` of the fault.
    pub(super) code: AtomicI32,
    /// Recording ends when 0 is stored there.
    pub(super) recording: AtomicPtr<AtomicU32>,
    /// The memory is marked as lost when 1 is stored there.
    pub(super) lost: AtomicPtr<AtomicU32>,
    /// Whether `siginterrupt` has set SIGBUS to interrupt system calls: `signal` then omits `SA_RESTART`.
    pub(super) interrupts: AtomicBool,
    /// The ids of our own threads; 0 for none.
    pub(super) threads: [AtomicI32; 16],
    /// The functions after ours; 0 if not looked up yet.
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

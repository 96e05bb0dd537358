//! The counts of the whole process.

use core::sync::atomic::{AtomicU64, Ordering};

/// The function in which a stack was taken.
#[derive(Clone, Copy)]
pub(crate) enum Entry {
    Here,
    Malloc,
    Calloc,
    Free,
    PosixMemalign,
    PyTorch,
}

/// Names of the entries, in their order.
pub(crate) const ENTRIES: [&str; 6] = [
    "here",
    "malloc",
    "calloc",
    "free",
    "posix_memalign",
    "pytorch",
];

/// The cause for which the system's unwinder took a stack.
#[derive(Clone, Copy)]
pub(crate) enum Cause {
    /// Part of it is not on the thread's own stack.
    OtherStack,
    /// It contains a signal handler.
    Signal,
    /// It contains code outside any module, which has separate tables.
    NoModule,
    /// It contains a frame that two registers cannot express.
    Rule,
}

/// Names of the causes, in their order.
pub(crate) const CAUSES: [&str; 4] = ["other_stack", "signal", "no_module", "rule"];

/// The counts.
#[derive(Default)]
pub(crate) struct Counts {
    /// Stacks that gpumem's unwinder took, by entry.
    pub(crate) compared: [AtomicU64; ENTRIES.len()],
    /// The frames of these stacks.
    pub(crate) frames: AtomicU64,
    /// The most frames of a stack, up to the limit.
    pub(crate) deepest: AtomicU64,
    /// Stacks whose older frames were cut off.
    pub(crate) truncated: AtomicU64,
    /// Stacks that the system's unwinder took, by cause.
    pub(crate) by_system: [AtomicU64; CAUSES.len()],
    /// Stacks of either kind that differ from the system's.
    pub(crate) mismatches: AtomicU64,
    /// Different stacks.
    pub(crate) distinct: AtomicU64,
    /// Stacks with the hash of another stack.
    pub(crate) shared_hashes: AtomicU64,
    /// Stacks that had a different hash before.
    pub(crate) changed_hashes: AtomicU64,
    /// Threads on which stacks were taken; a thread may count more than once.
    pub(crate) threads: AtomicU64,
}

pub(crate) static COUNTS: Counts = Counts {
    compared: [const { AtomicU64::new(0) }; ENTRIES.len()],
    frames: AtomicU64::new(0),
    deepest: AtomicU64::new(0),
    truncated: AtomicU64::new(0),
    by_system: [const { AtomicU64::new(0) }; CAUSES.len()],
    mismatches: AtomicU64::new(0),
    distinct: AtomicU64::new(0),
    shared_hashes: AtomicU64::new(0),
    changed_hashes: AtomicU64::new(0),
    threads: AtomicU64::new(0),
};

/// Adds `more` and returns the previous count.
pub(crate) fn add(count: &AtomicU64, more: u64) -> u64 {
    count.fetch_add(more, Ordering::Relaxed)
}

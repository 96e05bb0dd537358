//! What is counted, for the whole process.

use core::sync::atomic::{AtomicU64, Ordering};

/// Where a stack was taken.
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

/// Why the system's unwinder took a stack.
#[derive(Clone, Copy)]
pub(crate) enum Cause {
    /// Not all of it lies on the thread's own stack.
    OtherStack,
    /// A signal handler is on it.
    Signal,
    /// Code that lies in no module is on it, and has tables of its own.
    NoModule,
    /// A frame that two registers cannot express is on it.
    Rule,
}

/// Names of the causes, in their order.
pub(crate) const CAUSES: [&str; 4] = ["other_stack", "signal", "no_module", "rule"];

/// The counts.
#[derive(Default)]
pub(crate) struct Counts {
    /// Stacks that gpumem's unwinder took, by entry.
    pub(crate) compared: [AtomicU64; ENTRIES.len()],
    /// Their frames.
    pub(crate) frames: AtomicU64,
    /// The most frames of one, cut off at what is kept.
    pub(crate) deepest: AtomicU64,
    /// Those of which older frames were cut off.
    pub(crate) truncated: AtomicU64,
    /// Stacks that were left to the system's unwinder, by cause.
    pub(crate) by_system: [AtomicU64; CAUSES.len()],
    /// Stacks of either kind that differ from the system's.
    pub(crate) mismatches: AtomicU64,
    /// Different stacks.
    pub(crate) distinct: AtomicU64,
    /// Stacks that have the hash of another one.
    pub(crate) shared_hashes: AtomicU64,
    /// Stacks that had another hash earlier.
    pub(crate) changed_hashes: AtomicU64,
    /// Threads, or parts of their lives, on which stacks were taken.
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

/// Adds `more` and returns what was there.
pub(crate) fn add(count: &AtomicU64, more: u64) -> u64 {
    count.fetch_add(more, Ordering::Relaxed)
}

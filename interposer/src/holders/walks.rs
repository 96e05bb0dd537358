//! The searches of a session.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

/// The state of a session's searches at failures.
pub(crate) struct Walks {
    /// Whether the observer of failures is attached.
    pub(super) is_attached: AtomicBool,
    /// How many failures had a search.
    pub(super) count: AtomicU32,
    /// How long all of them took, in microseconds.
    pub(super) micros: AtomicU64,
}

impl Walks {
    /// No search so far.
    pub(crate) const fn new() -> Self {
        Self {
            is_attached: AtomicBool::new(false),
            count: AtomicU32::new(0),
            micros: AtomicU64::new(0),
        }
    }
}

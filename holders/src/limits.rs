//! What a walk may use, and which bound ended it.

use std::time::{Duration, Instant};

/// What a walk may use.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// When it ends.
    until: Instant,
    /// The maximum number of objects.
    pub objects: usize,
    /// The maximum number of references.
    pub references: usize,
}

impl Limits {
    /// This time from now on, and at most about 250 MB.
    pub fn new(time: Duration) -> Self {
        let now = Instant::now();
        Self {
            until: now.checked_add(time).unwrap_or(now),
            objects: 4 << 20,
            references: 16 << 20,
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        Instant::now() >= self.until
    }
}

/// A bound that a walk reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The time.
    Time,
    /// The number of objects or references.
    Size,
    /// No memory was left.
    Memory,
}

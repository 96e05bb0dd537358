//! What a walk may use, and which bound ended it.

use std::time::{Duration, Instant};

/// What a walk may use.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// When it ends, by the thread's processor time and by the clock.
    processor: Duration,
    until: Instant,
    /// The maximum number of objects.
    pub objects: usize,
    /// The maximum number of references.
    pub references: usize,
}

impl Limits {
    /// This processor time of the calling thread from now on, twice of it by the clock, and at most about 250 MB.
    pub fn new(time: Duration) -> Self {
        let now = Instant::now();
        Self {
            processor: processor_time().saturating_add(time),
            until: now.checked_add(time.saturating_mul(2)).unwrap_or(now),
            objects: 4 << 20,
            references: 16 << 20,
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        processor_time() >= self.processor || Instant::now() >= self.until
    }
}

/// The processor time of the calling thread.
fn processor_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the structure is valid for writing.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
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

//! The kernel's clocks, also in a program that shows itself others.

use core::time::Duration;

use crate::c_library;

/// A clock's reading in nanoseconds; 0 if the clock does not exist.
#[inline]
pub fn read(id: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    if c_library::clock_gettime(id, &mut time) != 0 {
        return 0;
    }
    (time.tv_sec as u64)
        .wrapping_mul(1_000_000_000)
        .wrapping_add(time.tv_nsec as u64)
}

/// A moment of the monotonic clock.
#[derive(Clone, Copy, Debug)]
pub struct Instant(u64);

impl Instant {
    /// This moment.
    pub fn now() -> Self {
        Self(read(libc::CLOCK_MONOTONIC))
    }

    /// The time since then.
    pub fn elapsed(self) -> Duration {
        Duration::from_nanos(Self::now().0.saturating_sub(self.0))
    }
}

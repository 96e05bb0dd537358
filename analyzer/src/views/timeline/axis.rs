//! The axis of time: a bounded number of buckets for runs of any length.

use gpumem_capture::Nanos;

/// The maximum number of buckets.
pub(super) const BUCKETS: usize = 2048;
/// The initial width of a bucket, in ns.
const SHORTEST: u64 = 1024;

/// Buckets of equal width from the first event on. The width is doubled when there are too many: too many with events
/// ([`Axis::widen`]), or too many up to the newest event ([`Axis::advance`]).
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis {
    start: u64,
    width: u64,
    now: u64,
}

impl Axis {
    /// Starts at this time.
    pub fn from(start: Nanos) -> Self {
        Self {
            start: start.0,
            width: SHORTEST,
            now: start.0,
        }
    }

    /// Advances to an event's time. An event of another thread that is earlier than the last one counts as the last
    /// one.
    pub fn pass(&mut self, time: Nanos) {
        self.now = self.now.max(time.0);
    }

    /// Doubles the width of buckets.
    pub fn widen(&mut self) {
        self.width = self.width.saturating_mul(2);
    }

    /// Advances to an event's time. Returns how often the width was doubled so that [`BUCKETS`] reach it.
    pub fn advance(&mut self, time: Nanos) -> u32 {
        self.pass(time);
        let mut doubled = 0;
        while self.current() >= BUCKETS as u64 {
            self.widen();
            doubled += 1;
        }
        doubled
    }

    /// The newest time.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// The start of the axis.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// The width of a bucket.
    pub fn width(&self) -> u64 {
        self.width
    }

    /// The bucket of a time.
    pub fn index(&self, time: u64) -> u64 {
        time.saturating_sub(self.start) / self.width
    }

    /// The bucket of the newest time.
    pub fn current(&self) -> u64 {
        self.index(self.now)
    }

    /// The start of a bucket.
    pub fn begin(&self, index: u64) -> u64 {
        let from_start = self.width.saturating_mul(index);
        self.start.saturating_add(from_start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_run_fits_and_no_time_goes_back() {
        let mut axis = Axis::from(Nanos(5_000));
        assert_eq!(axis.advance(Nanos(5_000 + SHORTEST * 2047)), 0);
        assert_eq!(axis.current(), 2047);
        assert_eq!(axis.advance(Nanos(7_000)), 0);
        assert_eq!(axis.current(), 2047, "an earlier event of another thread");
        assert_eq!(axis.advance(Nanos(5_000 + SHORTEST * 2048)), 1);
        assert_eq!((axis.current(), axis.begin(1)), (1024, 5_000 + 2048));
        axis.advance(Nanos(u64::MAX));
        assert!(axis.current() < BUCKETS as u64);
        assert!(axis.begin(axis.current()) <= axis.now());
    }
}

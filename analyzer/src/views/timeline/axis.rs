//! The axis of time: a fixed number of buckets, however long the run turns out to be.

use gpumem_capture::Nanos;

/// How many buckets there are at most.
pub(super) const BUCKETS: usize = 2048;
/// How long one is at first, in ns.
const SHORTEST: u64 = 1024;

/// Buckets of one width from the first event on. They become twice as wide when there are too many: of those
/// in which something happened ([`Axis::widen`]), or of all up to the newest event ([`Axis::advance`]).
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis {
    start: u64,
    width: u64,
    now: u64,
}

impl Axis {
    /// From this time on.
    pub fn from(start: Nanos) -> Self {
        Self {
            start: start.0,
            width: SHORTEST,
            now: start.0,
        }
    }

    /// Goes on to an event's time; one that is earlier than the last, of another thread, counts as the
    /// last.
    pub fn pass(&mut self, time: Nanos) {
        self.now = self.now.max(time.0);
    }

    /// The buckets become twice as wide.
    pub fn widen(&mut self) {
        self.width = self.width.saturating_mul(2);
    }

    /// Goes on to an event's time, and says how often the buckets became twice as wide for [`BUCKETS`] to reach
    /// it.
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

    /// Where the axis begins.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// How long a bucket is.
    pub fn width(&self) -> u64 {
        self.width
    }

    /// The bucket that a time is in.
    pub fn index(&self, time: u64) -> u64 {
        time.saturating_sub(self.start) / self.width
    }

    /// The bucket of the newest time.
    pub fn current(&self) -> u64 {
        self.index(self.now)
    }

    /// When a bucket begins.
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

//! The axis of time: a fixed number of buckets, however long the run turns out to be.

use gpumem_capture::Nanos;

/// How many buckets there are at most.
pub(super) const BUCKETS: u32 = 2048;
/// How long one is at first, in ns.
const SHORTEST: u64 = 1024;

/// Buckets of one width from the first event on. When an event comes that none of them reaches, all become
/// twice as wide.
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
    /// last. Says how often the buckets became twice as wide.
    pub fn advance(&mut self, time: Nanos) -> u32 {
        self.now = self.now.max(time.0);
        let mut doubled = 0;
        while (self.now - self.start) / self.width >= u64::from(BUCKETS) {
            self.width = self.width.saturating_mul(2);
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
    pub fn index(&self, time: u64) -> u32 {
        let index = time.saturating_sub(self.start) / self.width;
        index.min(u64::from(BUCKETS) - 1) as u32
    }

    /// The bucket of the newest time.
    pub fn current(&self) -> u32 {
        self.index(self.now)
    }

    /// When a bucket begins.
    pub fn begin(&self, index: u32) -> u64 {
        let from_start = self.width.saturating_mul(u64::from(index));
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
        assert!(axis.current() < BUCKETS);
        assert!(axis.begin(axis.current()) <= axis.now());
    }
}

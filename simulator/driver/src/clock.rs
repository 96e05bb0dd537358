//! The time of events: the host's time plus the simulated duration of work.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Simulated duration of work, in nanoseconds.
static TAKEN: AtomicU64 = AtomicU64::new(0);

/// The time of an event that is recorded now.
pub fn now() -> Instant {
    after_work(Instant::now())
}

fn after_work(time: Instant) -> Instant {
    let taken = Duration::from_nanos(TAKEN.load(Ordering::Relaxed));
    // A duration that overflows the clock is not added.
    time.checked_add(taken).unwrap_or(time)
}

/// Delays events that are recorded from now on by a duration. No time passes. For libraries of the
/// simulator whose work a program compares by time, as it does to choose one of cuDNN's engines.
#[unsafe(no_mangle)]
pub extern "C" fn gpumem_sim_take_time(nanoseconds: u64) {
    let add = |taken: u64| Some(taken.saturating_add(nanoseconds));
    // It always adds, so it cannot fail.
    let _ = TAKEN.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_takes_time_without_waiting() {
        const HOUR: u64 = 3_600_000_000_000;
        let began = Instant::now();
        assert_eq!(after_work(began), began);
        gpumem_sim_take_time(HOUR);
        gpumem_sim_take_time(HOUR);
        assert_eq!(after_work(began) - began, Duration::from_nanos(2 * HOUR));
        assert!(now() >= began + Duration::from_nanos(2 * HOUR));
        gpumem_sim_take_time(u64::MAX);
        assert_eq!(after_work(began) - began, Duration::from_nanos(u64::MAX));
    }
}

//! The time of events: the host's time plus the simulated duration of work.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Simulated duration of work, in nanoseconds.
static TAKEN: AtomicU64 = AtomicU64::new(0);

/// The time of an event that is recorded now.
pub fn now() -> Instant {
    let taken = Duration::from_nanos(TAKEN.load(Ordering::Relaxed));
    let now = Instant::now();
    // A duration that overflows the clock is not added.
    now.checked_add(taken).unwrap_or(now)
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
        let before = now();
        gpumem_sim_take_time(3_600_000_000_000);
        assert!(now() - before >= Duration::from_secs(3600));
        assert!(Instant::now() < before + Duration::from_secs(3600));
        gpumem_sim_take_time(u64::MAX);
        assert!(now() >= before);
    }
}

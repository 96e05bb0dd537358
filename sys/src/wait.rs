//! Sleeping on a futex word, and waking the threads that sleep on it.

use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;

use crate::{clock, raw};

/// The minimum that a sleep that ended early counts as, so that no number of them lasts endlessly.
const AT_LEAST: Duration = Duration::from_micros(10);
/// How long a sleep lasts where the kernel refuses to wait for a word.
const UNWOKEN: Duration = Duration::from_millis(10);
/// The nap between two checks of [`until`].
const BETWEEN: Duration = Duration::from_micros(20);

/// Sleeps until `word` is woken, is no longer `value`, or `limit` has passed ([`Duration::MAX`]: no limit); returns the
/// time slept. The clock is read only if the sleep ended early, and its result is capped at the limit.
pub fn sleep(word: &AtomicU32, value: u32, limit: Duration) -> Duration {
    let time = timespec(limit);
    let began = clock::read(libc::CLOCK_MONOTONIC);
    let wait = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    let arguments = [
        word.as_ptr() as usize,
        wait as usize,
        value as usize,
        &raw const time as usize,
        0,
        0,
    ];
    // SAFETY: `word` and `time` outlive the call; FUTEX_WAIT only reads them.
    let result = unsafe { raw::call(libc::SYS_futex, arguments) };
    let error = i32::try_from(-result).unwrap_or(0);
    if matches!(error, 0 | libc::EAGAIN | libc::EINTR) {
        let since = clock::read(libc::CLOCK_MONOTONIC).saturating_sub(began);
        return Duration::from_nanos(since).max(AT_LEAST).min(limit);
    }
    if error != libc::ETIMEDOUT {
        // A filter of system calls refuses this one, so no thread can wake this one.
        let short = limit.min(UNWOKEN);
        nap(short);
        return short;
    }
    limit
}

/// Wakes all threads that sleep on `word`.
pub fn wake(word: &AtomicU32) {
    let wake = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    let arguments = [
        word.as_ptr() as usize,
        wake as usize,
        i32::MAX as usize,
        0,
        0,
        0,
    ];
    // SAFETY: `word` is valid; FUTEX_WAKE does not touch it.
    unsafe { raw::call(libc::SYS_futex, arguments) };
}

/// Sleeps for `time`, or less if a signal arrives.
pub fn nap(time: Duration) {
    let time = timespec(time);
    let arguments = [&raw const time as usize, 0, 0, 0, 0, 0];
    // SAFETY: `time` outlives the call, which only reads it.
    unsafe { raw::call(libc::SYS_nanosleep, arguments) };
}

/// Yields the processor.
pub fn yield_now() {
    // SAFETY: sched_yield has no preconditions.
    unsafe { raw::call(libc::SYS_sched_yield, [0; 6]) };
}

/// Checks `done` up to `looks` times, with a nap of 20 µs in between (70 with the kernel's slack); returns whether it
/// became true. Checks are counted and not timed, so no clock can extend the wait.
pub fn until(looks: u32, mut done: impl FnMut() -> bool) -> bool {
    (0..looks).any(|look| {
        if look != 0 {
            nap(BETWEEN);
        }
        done()
    })
}

/// How often this thread has given up its processor to wait for something. Tests count waits with it.
pub fn waits() -> u64 {
    let mut usage = core::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `usage` is valid for writing, and zeros are a valid value.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
        usage.assume_init()
    };
    u64::try_from(usage.ru_nvcsw).unwrap_or(0)
}

fn timespec(time: Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: libc::time_t::try_from(time.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: time.subsec_nanos().into(),
    }
}

const IDLE: u32 = 0;
const WOKEN: u32 = 1;
const ASLEEP: u32 = 2;

/// A thread's sleep until other threads have work for it. Waking it costs a system call only if it sleeps.
pub struct Alarm(AtomicU32);

impl Alarm {
    /// An alarm that has not been woken.
    #[expect(clippy::new_without_default, reason = "it lies in statics")]
    pub const fn new() -> Self {
        Self(AtomicU32::new(IDLE))
    }

    /// Sleeps until the next [`Alarm::wake`], or until `limit` has passed. Returns at once if there was a wake since
    /// the last sleep. May return early.
    pub fn sleep(&self, limit: Duration) {
        let slept = self
            .0
            .compare_exchange(IDLE, ASLEEP, Ordering::AcqRel, Ordering::Acquire);
        if slept.is_ok() {
            sleep(&self.0, ASLEEP, limit);
        }
        self.0.swap(IDLE, Ordering::AcqRel);
    }

    /// Wakes the thread, or makes its next sleep return at once.
    pub fn wake(&self) {
        if self.0.swap(WOKEN, Ordering::AcqRel) == ASLEEP {
            wake(&self.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wake_before_the_sleep_is_not_lost() {
        let alarm = Alarm::new();
        alarm.wake();
        alarm.sleep(Duration::MAX);
    }

    #[test]
    fn a_sleeper_is_woken() {
        let alarm = Alarm::new();
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| alarm.sleep(Duration::MAX));
            alarm.wake();
            sleeper.join().expect("it returns");
        });
    }

    #[test]
    fn a_sleep_that_nobody_ends_lasts_as_long_as_asked_and_leaves_errno() {
        // SAFETY: errno's address is valid for the thread's life.
        unsafe { *libc::__errno_location() = 7 };
        let (word, limit) = (AtomicU32::new(1), Duration::from_millis(2));
        let before = waits();
        assert_eq!(sleep(&word, 1, limit), limit);
        assert!(waits() > before);
        let time = timespec(Duration::new(3, 5));
        assert_eq!((time.tv_sec, time.tv_nsec), (3, 5));
        assert_eq!(timespec(Duration::MAX).tv_sec, libc::time_t::MAX);
        // The word has another value.
        assert!((AT_LEAST..=limit).contains(&sleep(&word, 2, limit)));
        assert_eq!(sleep(&word, 2, Duration::ZERO), Duration::ZERO);
        // SAFETY: as above.
        assert_eq!(unsafe { *libc::__errno_location() }, 7);
    }

    #[test]
    fn it_is_looked_so_often() {
        let mut looks = 0;
        assert!(!until(3, || {
            looks += 1;
            false
        }));
        assert!(looks == 3 && until(1, || true));
    }
}

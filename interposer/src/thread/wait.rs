//! Sleeping on a word, and waking who sleeps there.

use core::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The least that a sleep that ended early counts as, so that no number of them lasts for ever.
const AT_LEAST: Duration = Duration::from_micros(10);

/// Sleeps until `word` is woken, is no longer `value`, or `limit` has passed (`None`: no limit); returns for how
/// long. Only where it ended early is a clock asked, and then believed up to the limit.
pub(crate) fn sleep(word: &AtomicU32, value: u32, limit: Option<Duration>) -> Duration {
    let time = limit.map(|limit| libc::timespec {
        tv_sec: limit.as_secs() as libc::time_t,
        tv_nsec: limit.subsec_nanos().into(),
    });
    let time = time.as_ref().map_or(core::ptr::null(), core::ptr::from_ref);
    let began = Instant::now();
    // SAFETY: `word` outlives the call, and so does what `time` points to, if it is not null; both are only read.
    let result = unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
            value,
            time,
        )
    };
    let error = match result {
        0 => None,
        _ => std::io::Error::last_os_error().raw_os_error(),
    };
    let all = limit.unwrap_or(Duration::MAX);
    match error {
        Some(libc::ETIMEDOUT) => all,
        None | Some(libc::EAGAIN | libc::EINTR) => began.elapsed().max(AT_LEAST).min(all),
        Some(_) => {
            // A filter of system calls refuses this one: nobody can wake us.
            let nap = all.min(Duration::from_millis(10));
            std::thread::sleep(nap);
            nap
        }
    }
}

/// Wakes all that sleep on `word`.
pub(crate) fn wake(word: &AtomicU32) {
    // SAFETY: `word` is valid; FUTEX_WAKE does not touch it.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
            i32::MAX,
        )
    };
}

const IDLE: u32 = 0;
const WOKEN: u32 = 1;
const ASLEEP: u32 = 2;

/// What one thread sleeps on until others have work for it. Waking it costs a system call only if it sleeps.
pub(crate) struct Alarm(AtomicU32);

impl Alarm {
    pub(crate) const fn new() -> Self {
        Self(AtomicU32::new(IDLE))
    }

    /// Sleeps until the next [`Alarm::wake`], or `limit` has passed; not at all if there was one since the last
    /// sleep. It may end early.
    pub(crate) fn sleep(&self, limit: Option<Duration>) {
        let slept = self
            .0
            .compare_exchange(IDLE, ASLEEP, Ordering::AcqRel, Ordering::Acquire);
        if slept.is_ok() {
            sleep(&self.0, ASLEEP, limit);
        }
        self.0.swap(IDLE, Ordering::AcqRel);
    }

    pub(crate) fn wake(&self) {
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
        alarm.sleep(None);
    }

    #[test]
    fn a_sleeper_is_woken() {
        let alarm = Alarm::new();
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| alarm.sleep(None));
            alarm.wake();
            sleeper.join().expect("it returns");
        });
    }
}

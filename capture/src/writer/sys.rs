//! The few system calls of the writer. All of them leave `errno` as they found it: they may run
//! inside a hook.

use core::sync::atomic::AtomicU32;
use core::time::Duration;

/// Restores the thread's `errno` when it goes.
struct KeepErrno(i32);

impl KeepErrno {
    fn new() -> Self {
        // SAFETY: __errno_location gives the calling thread's own errno, always valid.
        Self(unsafe { *libc::__errno_location() })
    }
}

impl Drop for KeepErrno {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { *libc::__errno_location() = self.0 };
    }
}

/// A clock's reading in nanoseconds; 0 if the clock does not exist.
#[inline]
pub(crate) fn clock(id: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is valid for writing; clock_gettime touches nothing else.
    if unsafe { libc::clock_gettime(id, &raw mut time) } != 0 {
        return 0;
    }
    (time.tv_sec as u64)
        .wrapping_mul(1_000_000_000)
        .wrapping_add(time.tv_nsec as u64)
}

/// The least that a sleep that ended early counts as, so that no number of them lasts for ever.
const AT_LEAST: Duration = Duration::from_micros(10);

/// Sleeps until `word` is woken, is no longer `value`, or `limit` has passed; returns how long that was.
/// Only where it ended early is a clock asked, and then believed up to the limit.
pub(super) fn futex_sleep(word: &AtomicU32, value: u32, limit: Duration) -> Duration {
    let _keep = KeepErrno::new();
    let time = timespec(limit);
    let began = clock(libc::CLOCK_MONOTONIC);
    // SAFETY: `word` and `time` outlive the call; FUTEX_WAIT only reads them.
    let result = unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
            value,
            &raw const time,
        )
    };
    // SAFETY: __errno_location gives the calling thread's own errno, always valid.
    let errno = unsafe { *libc::__errno_location() };
    if result == 0 || matches!(errno, libc::EAGAIN | libc::EINTR) {
        let since = clock(libc::CLOCK_MONOTONIC).saturating_sub(began);
        return Duration::from_nanos(since).max(AT_LEAST).min(limit);
    }
    if errno != libc::ETIMEDOUT {
        // A filter of system calls refuses this one: nobody can wake us.
        sleep(limit);
    }
    limit
}

/// Sleeps that long, or less if a signal comes.
pub(crate) fn sleep(time: Duration) {
    let _keep = KeepErrno::new();
    let time = timespec(time);
    // SAFETY: `time` outlives the call, which only reads it.
    unsafe { libc::nanosleep(&raw const time, core::ptr::null_mut()) };
}

fn timespec(time: Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: time.as_secs() as libc::time_t,
        tv_nsec: time.subsec_nanos() as libc::c_long,
    }
}

/// Wakes all that sleep on `word`.
pub(super) fn futex_wake(word: &AtomicU32) {
    let _keep = KeepErrno::new();
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

/// Gives the processor away.
pub(crate) fn yield_now() {
    let _keep = KeepErrno::new();
    // SAFETY: sched_yield has no preconditions.
    unsafe { libc::sched_yield() };
}

/// A random number from the kernel; from clocks and addresses where it has none to give.
pub(crate) fn random() -> u64 {
    let mut bytes = [0; 8];
    // By its number: glibc has no function for it before 2.25, and the wheel runs on 2.17.
    // SAFETY: the buffer is valid for its length.
    let got = unsafe {
        libc::syscall(
            libc::SYS_getrandom,
            bytes.as_mut_ptr(),
            bytes.len(),
            libc::GRND_NONBLOCK,
        )
    };
    if usize::try_from(got) == Ok(bytes.len()) {
        return u64::from_le_bytes(bytes);
    }
    let here = (&raw const bytes) as u64;
    clock(libc::CLOCK_REALTIME).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        ^ here
        ^ clock(libc::CLOCK_MONOTONIC)
}

/// Keeps the SIGXFSZ of a write past RLIMIT_FSIZE from killing the process: blocked in this thread
/// while this lives. The kernel sends it to the writing thread alone.
pub(super) struct NoFileSizeSignal {
    before: Option<libc::sigset_t>,
}

impl NoFileSizeSignal {
    pub(super) fn new() -> Self {
        let set = Self::set();
        let mut before = core::mem::MaybeUninit::uninit();
        // SAFETY: both sets are valid; only the calling thread's mask changes.
        let result =
            unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, before.as_mut_ptr()) };
        if result != 0 {
            return Self { before: None };
        }
        // SAFETY: pthread_sigmask succeeded, so it filled `before` in.
        let before = unsafe { before.assume_init() };
        Self {
            before: Some(before),
        }
    }

    fn set() -> libc::sigset_t {
        let mut set = core::mem::MaybeUninit::uninit();
        // SAFETY: sigemptyset initialises the set; SIGXFSZ is a valid signal number.
        unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            libc::sigaddset(set.as_mut_ptr(), libc::SIGXFSZ);
            set.assume_init()
        }
    }
}

impl Drop for NoFileSizeSignal {
    fn drop(&mut self) {
        let Some(before) = self.before else { return };
        let _keep = KeepErrno::new();
        // SAFETY: all pointers are to valid locals; sigismember only reads.
        unsafe {
            if libc::sigismember(&raw const before, libc::SIGXFSZ) == 0 {
                // Take what our own writes raised before the mask opens again.
                let set = Self::set();
                let none = libc::timespec {
                    tv_sec: 0,
                    tv_nsec: 0,
                };
                while libc::sigtimedwait(&raw const set, core::ptr::null_mut(), &raw const none)
                    == libc::SIGXFSZ
                {}
            }
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, core::ptr::null_mut());
        }
    }
}

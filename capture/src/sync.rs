//! The atomics of the ring and of its locks, or loom's models of them in `--cfg loom` tests.

#[cfg(not(loom))]
pub(crate) use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use core::time::Duration;

/// Tells the processor that a loop waits.
#[inline(always)]
pub(crate) fn pause() {
    #[cfg(not(loom))]
    core::hint::spin_loop();
    #[cfg(loom)]
    loom::hint::spin_loop();
}

/// So many times the processor is given away before a waiting thread sleeps.
#[cfg(not(loom))]
const YIELDS: u32 = 64;
#[cfg(not(loom))]
const SLEEP: Duration = Duration::from_micros(50);

/// The `round`th time, from 0, that a waiting thread lets others run. Returns how long it has slept in all, at
/// least. Keeps errno: it may run inside a hook.
#[cfg(not(loom))]
pub(crate) fn let_others_run(round: u32) -> Duration {
    use gpumem_sys::wait;

    match round.checked_sub(YIELDS) {
        None => {
            wait::yield_now();
            Duration::ZERO
        }
        Some(sleeps) => {
            wait::nap(SLEEP);
            SLEEP.saturating_mul(sleeps.saturating_add(1))
        }
    }
}

/// In a model nobody waits for ever: all threads go on.
#[cfg(loom)]
pub(crate) fn let_others_run(_: u32) -> Duration {
    loom::thread::yield_now();
    Duration::ZERO
}

/// Has the processor fetch the cache line of `place` for a store that is to come soon. A hint: it changes
/// nothing and cannot fault.
#[inline(always)]
pub(crate) fn expect_store<T>(place: &T) {
    #[cfg(not(loom))]
    gpumem_sys::prefetch::for_store(core::ptr::from_ref(place));
    #[cfg(loom)]
    let _ = place;
}

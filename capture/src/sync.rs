//! The atomics of the ring and of its locks, or loom's models of them in `--cfg loom` tests.

#[cfg(not(loom))]
pub(crate) use core::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering, fence};

use core::time::Duration;

/// Hints to the processor that this is a wait loop.
#[inline(always)]
pub(crate) fn pause() {
    #[cfg(not(loom))]
    core::hint::spin_loop();
    #[cfg(loom)]
    loom::hint::spin_loop();
}

/// How often a waiting thread yields the processor before it sleeps.
#[cfg(not(loom))]
const YIELDS: u32 = 64;
#[cfg(not(loom))]
const SLEEP: Duration = Duration::from_micros(50);

/// Lets other threads run; `round` counts the calls of a waiting thread, from 0. Returns the minimum time that
/// it has slept in total. Keeps errno, because it may run inside a hook.
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

/// Waits in a model are finite: all threads make progress.
#[cfg(loom)]
pub(crate) fn let_others_run(_: u32) -> Duration {
    loom::thread::yield_now();
    Duration::ZERO
}

/// Prefetches the cache line of `place` for a store that follows soon. A hint: it has no side effects and
/// cannot fault.
#[inline(always)]
pub(crate) fn expect_store<T>(place: &T) {
    #[cfg(not(loom))]
    gpumem_sys::prefetch::for_store(core::ptr::from_ref(place));
    #[cfg(loom)]
    let _ = place;
}

/// What was seen of the holder of a lock, by a thread that waits for it.
#[derive(Default)]
pub(crate) struct Holders {
    /// Its processor time when it was first looked at.
    #[cfg(not(loom))]
    first: Option<Duration>,
}

/// The processor time of a holder that has left the recorder's code without unlocking, by a jump out of a signal's
/// handler: a thread needs far less of it.
#[cfg(not(loom))]
const LEFT: Duration = Duration::from_secs(1);

impl Holders {
    /// Whether the thread will never unlock: it has ended, sleeps, or had enough of the processor to. A thread that wants
    /// the processor, waits for a page, or was stopped by a debugger goes on. Unknown counts as lost.
    #[cfg(not(loom))]
    #[cold]
    pub(crate) fn is_lost(&mut self, thread: u32) -> bool {
        use gpumem_sys::threads::{self, State};

        match threads::state(thread) {
            State::Active(time) => time.saturating_sub(*self.first.get_or_insert(time)) >= LEFT,
            State::Sleeping | State::Ended | State::Unknown => true,
        }
    }

    #[cfg(loom)]
    pub(crate) fn is_lost(&mut self, _: u32) -> bool {
        false
    }
}

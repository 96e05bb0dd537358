//! A lock for about twenty nanoseconds of work that can neither block nor fail, and a count of the changes made
//! under it. Its word is in this process's own memory. A thread waits for a holder that gets no processor, and not for
//! one that will never unlock.

use core::time::Duration;

use crate::sync::{AtomicU64, Holders, Ordering, let_others_run, pause};

/// The kernel's id of the thread that holds it, 0 while it is free, in the low half; the number of changes in the high
/// half. One word, so that there is no moment at which it is held by an unknown thread.
#[derive(Default)]
pub(crate) struct Lock(AtomicU64);

/// One change.
const CHANGE: u64 = 1 << 32;

/// The holder in a word.
fn holder(word: u64) -> u32 {
    word as u32
}

impl Lock {
    /// Locks it for the calling thread, whose id is `own`. None if its holder has made no progress for `bound` and is
    /// lost ([`Holders`]).
    #[inline]
    pub(crate) fn lock(&self, own: u32, bound: Duration) -> Option<Guard<'_>> {
        let own = own.max(1);
        let before = match self.try_lock(own) {
            Some(before) => before,
            None => self.lock_in_turn(own, bound)?,
        };
        Some(Guard {
            lock: self,
            before,
            after: before,
        })
    }

    /// The previous word, if the lock was free.
    #[inline(always)]
    fn try_lock(&self, own: u32) -> Option<u64> {
        let word = self.0.load(Ordering::Relaxed);
        (holder(word) == 0
            && self
                .0
                .compare_exchange_weak(
                    word,
                    word | u64::from(own),
                    Ordering::Acquire,
                    Ordering::Relaxed,
                )
                .is_ok())
        .then_some(word)
    }

    /// Waits for some microseconds, then yields the processor. The bound starts when the lock last changed
    /// hands, and counts sleeps, because a clock can be set forward meanwhile.
    #[cold]
    fn lock_in_turn(&self, own: u32, bound: Duration) -> Option<u64> {
        let mut seen = self.0.load(Ordering::Relaxed);
        let mut rounds = 0;
        let mut holders = Holders::default();
        loop {
            // Increasing pauses between attempts: each attempt takes the cache line from the holder, and so
            // does each handover.
            for pauses in [1, 4, 16, 64, 256] {
                for _ in 0..pauses {
                    pause();
                }
                if let Some(before) = self.try_lock(own) {
                    return Some(before);
                }
            }
            let now = self.0.load(Ordering::Relaxed);
            if now != seen {
                (seen, rounds) = (now, 0);
                holders = Holders::default();
            }
            if let_others_run(rounds) >= bound {
                let is_lost = holder(now) == own || holders.is_lost(holder(now));
                // A holder may have unlocked and ended since it was seen.
                if is_lost && self.0.load(Ordering::Relaxed) == now {
                    return None;
                }
                rounds = 0;
            }
            rounds += 1;
        }
    }
}

/// The lock, held.
pub(crate) struct Guard<'a> {
    lock: &'a Lock,
    before: u64,
    after: u64,
}

impl Guard<'_> {
    /// Records a change made under the lock.
    #[inline(always)]
    pub(crate) fn changed(&mut self) {
        self.after = self.before.wrapping_add(CHANGE);
    }

    /// The number of changes before it was locked, modulo 2^31.
    #[inline(always)]
    pub(crate) fn changes(&self) -> u32 {
        (self.before / CHANGE) as u32 & (u32::MAX >> 1)
    }
}

impl Drop for Guard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.lock.0.store(self.after, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use gpumem_sys::threads;
    use gpumem_sys::wait::waits;

    use super::*;

    #[test]
    fn changes_are_counted_and_looks_are_not() {
        let lock = Lock::default();
        lock.lock(1, Duration::ZERO).unwrap().changed();
        drop(lock.lock(1, Duration::ZERO).unwrap());
        lock.lock(1, Duration::ZERO).unwrap().changed();
        assert_eq!(lock.lock(1, Duration::ZERO).unwrap().changes(), 2);
    }

    #[test]
    fn a_thread_that_holds_it_does_not_wait_for_itself() {
        let lock = Lock::default();
        let held = lock.lock(1, Duration::ZERO);
        let (bound, before) = (Duration::from_millis(20), waits());
        assert!(lock.lock(1, bound).is_none());
        // One for each 50 µs: 400. On a busy machine, one that is over before the thread sleeps is not counted.
        assert!(waits() - before >= 200, "{} waits", waits() - before);
        drop(held);
        assert!(lock.lock(1, bound).is_some());
    }

    #[test]
    fn a_holder_that_has_ended_is_not_waited_for() {
        let lock = Lock::default();
        std::thread::scope(|scope| {
            scope.spawn(|| std::mem::forget(lock.lock(threads::own(), Duration::ZERO)));
        });
        assert!(
            lock.lock(threads::own(), Duration::from_millis(2))
                .is_none()
        );
    }

    #[test]
    fn a_holder_that_sleeps_elsewhere_is_not_waited_for() {
        let (lock, over) = (Lock::default(), std::sync::Barrier::new(2));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::mem::forget(lock.lock(threads::own(), Duration::ZERO));
                over.wait();
                over.wait();
            });
            over.wait();
            assert!(
                lock.lock(threads::own(), Duration::from_millis(20))
                    .is_none()
            );
            over.wait();
        });
    }

    /// It runs, or wants to, for many times the bound.
    #[test]
    fn a_holder_that_gets_little_processor_is_waited_for() {
        use std::sync::atomic::{AtomicBool, AtomicU32};

        let (lock, bound) = (Lock::default(), Duration::from_millis(1));
        let (begun, over) = (std::sync::Barrier::new(3), AtomicBool::new(false));
        // A holder that still sleeps in the barrier would be one that never unlocks.
        let spins = AtomicBool::new(false);
        let waiter = AtomicU32::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let held = lock.lock(threads::own(), Duration::ZERO);
                begun.wait();
                spins.store(true, Ordering::Relaxed);
                while !over.load(Ordering::Relaxed) {
                    pause();
                }
                drop(held);
            });
            scope.spawn(|| {
                waiter.store(threads::own(), Ordering::Relaxed);
                begun.wait();
                while !spins.load(Ordering::Relaxed) {
                    std::thread::yield_now();
                }
                assert!(lock.lock(threads::own(), bound).is_some());
            });
            begun.wait();
            let sleeps = || {
                let waiter = waiter.load(Ordering::Relaxed);
                let text = std::fs::read_to_string(format!("/proc/self/task/{waiter}/status"));
                let line = "\nvoluntary_ctxt_switches:";
                let after = text.ok()?.split_once(line)?.1.to_owned();
                after.split_whitespace().next()?.parse::<u32>().ok()
            };
            // 20 sleeps make a bound. None: it did not wait that long.
            while sleeps().is_some_and(|count| count < 200) {
                std::thread::yield_now();
            }
            over.store(true, Ordering::Relaxed);
        });
    }

    #[test]
    fn threads_take_turns() {
        let (lock, sum) = (Lock::default(), std::sync::atomic::AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        let mut held = lock.lock(threads::own(), Duration::from_secs(300)).unwrap();
                        let before = sum.load(std::sync::atomic::Ordering::Relaxed);
                        sum.store(before + 1, std::sync::atomic::Ordering::Relaxed);
                        held.changed();
                    }
                });
            }
        });
        assert_eq!(lock.lock(1, Duration::ZERO).unwrap().changes(), 80_000);
        assert_eq!(sum.into_inner(), 80_000);
    }
}

#[cfg(all(test, loom))]
mod model {
    //! `RUSTFLAGS="--cfg loom" cargo test -p gpumem-capture --lib --release model`

    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    struct Counted {
        lock: Lock,
        value: UnsafeCell<u32>,
    }

    // SAFETY: the value is touched under the lock alone, which is what the model checks.
    unsafe impl Sync for Counted {}
    // SAFETY: as above.
    unsafe impl Send for Counted {}

    fn add(counted: &Counted) {
        let mut held = counted.lock.lock(1, Duration::MAX).expect("no bound");
        // SAFETY: the lock is held; loom fails the test where another thread is at it.
        counted.value.with_mut(|value| unsafe { *value += 1 });
        held.changed();
    }

    #[test]
    fn one_thread_at_a_time_sees_what_the_one_before_did() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let counted = Arc::new(Counted {
                lock: Lock::default(),
                value: UnsafeCell::new(0),
            });
            let other = counted.clone();
            let thread = thread::spawn(move || add(&other));
            add(&counted);
            thread.join().expect("no panic");
            let held = counted.lock.lock(1, Duration::MAX).expect("no bound");
            assert_eq!(held.changes(), 2);
            // SAFETY: the lock is held.
            counted.value.with(|value| assert_eq!(unsafe { *value }, 2));
        });
    }
}

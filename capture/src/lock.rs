//! A lock for about twenty nanoseconds of work that can neither block nor fail, and a count of the changes made
//! under it. Its word is in this process's own memory, and waiting has a bound.

use core::time::Duration;

use crate::sync::{AtomicU32, Ordering, let_others_run, pause};

/// Odd while a thread holds it; each change adds 2.
#[derive(Default)]
pub(crate) struct Lock(AtomicU32);

impl Lock {
    /// Locks, waiting at most `bound` for a holder that makes no progress.
    #[inline]
    pub(crate) fn lock(&self, bound: Duration) -> Option<Guard<'_>> {
        let before = match self.try_lock() {
            Some(before) => before,
            None => self.lock_in_turn(bound)?,
        };
        Some(Guard {
            lock: self,
            before,
            after: before,
        })
    }

    /// The previous word, if the lock was free.
    #[inline(always)]
    fn try_lock(&self) -> Option<u32> {
        let word = self.0.load(Ordering::Relaxed);
        let odd = word.wrapping_add(1);
        (word & 1 == 0
            && self
                .0
                .compare_exchange_weak(word, odd, Ordering::Acquire, Ordering::Relaxed)
                .is_ok())
        .then_some(word)
    }

    /// Waits for some microseconds, then yields the processor. The bound starts when the lock last changed
    /// hands, and counts sleeps, because a clock can be set forward meanwhile.
    #[cold]
    fn lock_in_turn(&self, bound: Duration) -> Option<u32> {
        let mut seen = self.0.load(Ordering::Relaxed);
        let mut rounds = 0;
        loop {
            // Increasing pauses between attempts: each attempt takes the cache line from the holder, and so
            // does each handover.
            for pauses in [1, 4, 16, 64, 256] {
                for _ in 0..pauses {
                    pause();
                }
                if let Some(before) = self.try_lock() {
                    return Some(before);
                }
            }
            let now = self.0.load(Ordering::Relaxed);
            if now != seen {
                (seen, rounds) = (now, 0);
            }
            if let_others_run(rounds) >= bound {
                return None;
            }
            rounds += 1;
        }
    }
}

/// The lock, held.
pub(crate) struct Guard<'a> {
    lock: &'a Lock,
    before: u32,
    after: u32,
}

impl Guard<'_> {
    /// Records a change made under the lock.
    #[inline(always)]
    pub(crate) fn changed(&mut self) {
        self.after = self.before.wrapping_add(2);
    }

    /// The number of changes before it was locked, modulo 2^31.
    #[inline(always)]
    pub(crate) fn changes(&self) -> u32 {
        self.before >> 1
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
    use gpumem_sys::wait::waits;

    use super::*;

    #[test]
    fn changes_are_counted_and_looks_are_not() {
        let lock = Lock::default();
        lock.lock(Duration::ZERO).unwrap().changed();
        drop(lock.lock(Duration::ZERO).unwrap());
        lock.lock(Duration::ZERO).unwrap().changed();
        assert_eq!(lock.lock(Duration::ZERO).unwrap().changes(), 2);
    }

    #[test]
    fn a_holder_that_does_not_go_on_is_waited_for_within_the_bound() {
        let lock = Lock::default();
        let held = lock.lock(Duration::ZERO);
        let (bound, before) = (Duration::from_millis(20), waits());
        assert!(lock.lock(bound).is_none());
        // One for each 50 µs.
        assert!(waits() - before >= 400, "{} waits", waits() - before);
        drop(held);
        assert!(lock.lock(bound).is_some());
    }

    #[test]
    fn threads_take_turns() {
        let (lock, sum) = (Lock::default(), std::sync::atomic::AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        let mut held = lock.lock(Duration::from_secs(300)).unwrap();
                        let before = sum.load(std::sync::atomic::Ordering::Relaxed);
                        sum.store(before + 1, std::sync::atomic::Ordering::Relaxed);
                        held.changed();
                    }
                });
            }
        });
        assert_eq!(lock.lock(Duration::ZERO).unwrap().changes(), 80_000);
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
        let mut held = counted.lock.lock(Duration::MAX).expect("no bound");
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
            let held = counted.lock.lock(Duration::MAX).expect("no bound");
            assert_eq!(held.changes(), 2);
            // SAFETY: the lock is held.
            counted.value.with(|value| assert_eq!(unsafe { *value }, 2));
        });
    }
}

//! Waiting for room in the ring, and waking the drain that makes it.
//!
//! The futex words are in this process's own memory, so that no other process can wake or delay it.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use gpumem_sys::wait;

use crate::ring::Ring;

/// Factor by which a producer waits longer for a drain that is not writing to the file and makes no progress: it can
/// only be waiting for a processor. On a machine with many more programs than processors that may take longer than
/// any disk operation.
const FOR_A_TURN: u32 = 10;
/// Limit of a producer's total wait when the drain makes progress but other threads take all the room, as a multiple
/// of the wait for a drain without progress.
const IN_ALL: u32 = 2;
/// How long a producer sleeps at a time.
const SLICE: Duration = Duration::from_millis(10);
/// How long the drain sleeps without being woken.
const DRAIN_SLEEP: Duration = Duration::from_millis(50);

/// No stall.
const NONE: u64 = u64::MAX;

pub(super) struct Backpressure {
    /// How long producers wait for a drain that is writing and makes no progress.
    stall: Duration,
    /// The same for one that does not write.
    for_a_turn: Duration,
    /// The tail at which a stall was declared: producers do not wait until it moves.
    stalled_at: AtomicU64,
    /// The drain has reported that it cannot write: producers do not wait.
    hopeless: AtomicBool,
    /// The drain is busy and will make progress: waiting is worthwhile.
    busy: AtomicBool,
    /// The drain is in a call that writes to the file, which may never return.
    writing: AtomicBool,
    /// Changes when the drain has made room.
    made: AtomicU32,
    waiting: AtomicU32,
    /// Changes when the drain has something to do.
    work: AtomicU32,
}

impl Backpressure {
    /// With `writes`, the drain itself writes to the file.
    pub(super) const fn new(stall: Duration, writes: bool) -> Self {
        Self {
            stall,
            for_a_turn: match writes {
                true => stall.saturating_mul(FOR_A_TURN),
                false => stall,
            },
            stalled_at: AtomicU64::new(NONE),
            hopeless: AtomicBool::new(false),
            busy: AtomicBool::new(false),
            writing: AtomicBool::new(false),
            made: AtomicU32::new(0),
            waiting: AtomicU32::new(0),
            work: AtomicU32::new(0),
        }
    }

    /// Waits until `slots` slots were free at some time: true. False: a stall was declared, now or earlier, and
    /// producers should not wait again until the tail moves.
    ///
    /// The waiting time is the time that the kernel has slept. A clock only shortens it within a slice: a clock that
    /// is set forward must not cause a stall, and one that stands still must not block the program.
    #[cold]
    pub(super) fn wait(&self, ring: &Ring<'_>, slots: u64, nudge: impl Fn()) -> bool {
        let mut tail = ring.tail();
        let (mut waited, mut in_all) = (Duration::ZERO, Duration::ZERO);
        let mut writing = self.writing.load(Ordering::Relaxed);
        loop {
            let made = self.made.load(Ordering::Acquire);
            if ring.has_space(slots) {
                return true;
            }
            if ring.backed().is_some() {
                nudge(); // takes memory for more of the ring
                if ring.has_space(slots) {
                    return true;
                }
            }
            let (now, writes) = (ring.tail(), self.writing.load(Ordering::Relaxed));
            if (now, writes) != (tail, writing) {
                (tail, writing, waited) = (now, writes, Duration::ZERO);
            }
            let stall = match writing {
                true => self.stall,
                false => self.for_a_turn,
            };
            if self.stalled_at.load(Ordering::Relaxed) == tail
                || self.hopeless.load(Ordering::Relaxed)
            {
                return false;
            }
            let busy = self.busy.load(Ordering::Relaxed);
            if busy {
                // After the call, the drain still has to move the tail.
                waited = Duration::ZERO;
            }
            if waited >= stall || in_all >= self.for_a_turn.saturating_mul(IN_ALL) {
                self.stalled_at.store(tail, Ordering::Relaxed);
                return false;
            }
            nudge();
            let slice = SLICE.min(stall.saturating_sub(waited));
            self.waiting.fetch_add(1, Ordering::SeqCst);
            let slept = wait::sleep(&self.made, made, slice);
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            waited += slept;
            in_all += slept;
        }
    }

    /// Records that the drain has made room.
    pub(super) fn made_room(&self) {
        self.hopeless.store(false, Ordering::Relaxed);
        self.wake_waiting();
    }

    /// Wakes the producers that wait, because there is more room.
    pub(super) fn wake_waiting(&self) {
        self.made.fetch_add(1, Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) != 0 {
            wait::wake(&self.made);
        }
    }

    /// Sets whether the drain is in a longer operation, after which it makes room. Producers wait longer for it than
    /// for a drain without progress.
    pub(super) fn set_busy(&self, busy: bool) {
        self.busy.store(busy, Ordering::Relaxed);
    }

    /// Whether the drain is in a longer operation, and whether it writes to the file.
    #[cfg(all(test, not(loom)))]
    pub(super) fn busy_and_writing(&self) -> (bool, bool) {
        (
            self.busy.load(Ordering::Relaxed),
            self.writing.load(Ordering::Relaxed),
        )
    }

    /// Sets whether the drain is in a call that writes to the file.
    pub(super) fn set_writing(&self, writing: bool) {
        self.writing.store(writing, Ordering::Relaxed);
    }

    /// Records that the drain cannot make room.
    pub(super) fn give_up(&self) {
        self.hopeless.store(true, Ordering::Relaxed);
        self.made.fetch_add(1, Ordering::SeqCst);
        wait::wake(&self.made);
    }

    /// Wakes the drain, because there is work.
    #[cold]
    pub(super) fn wake_drain(&self) {
        self.work.fetch_add(1, Ordering::Release);
        wait::wake(&self.work);
    }

    /// A mark for [`Backpressure::sleep`]: take it before looking for work.
    pub(super) fn work_mark(&self) -> u32 {
        self.work.load(Ordering::Acquire)
    }

    /// Sleeps until there is work after `mark`, or for a limited time.
    pub(super) fn sleep(&self, mark: u32) {
        wait::sleep(&self.work, mark, DRAIN_SLEEP);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use core::array::from_fn;

    use super::*;
    use crate::checksum::Checks;
    use crate::ring::{Indexes, Slot};

    const SLOTS: u64 = 64;
    /// Two waits for a drain that writes, 20 for one that does not, 40 in all.
    const STALL: Duration = Duration::from_millis(20);

    /// A full ring, and what makes it wait.
    struct Full {
        slots: [Slot; SLOTS as usize],
        indexes: Indexes,
        backpressure: Backpressure,
    }

    impl Full {
        fn new() -> Self {
            let full = Self {
                slots: from_fn(|_| Slot(from_fn(|_| AtomicU64::new(0)))),
                indexes: Indexes::new(SLOTS, SLOTS),
                backpressure: Backpressure::new(STALL, true),
            };
            assert_eq!(full.ring().reserve(SLOTS), Some(0));
            full
        }

        fn ring(&self) -> Ring<'_> {
            Ring::new(&self.indexes, &self.slots, Checks::new(1))
        }

        /// Releases the oldest slot.
        fn release(&self) {
            let ring = self.ring();
            ring.release(ring.tail() + 1);
        }

        /// Releases it, and another thread takes the room.
        fn replace(&self) {
            self.release();
            assert!(self.ring().reserve(1).is_some());
        }

        /// Waits for one slot; calls `change` before each wait, with their number so far. Returns the result, and the
        /// number of waits.
        fn wait(&self, change: impl Fn(u64)) -> (bool, u64) {
            let ring = self.ring();
            let waits = core::cell::Cell::new(0);
            let has_space = self.backpressure.wait(&ring, 1, || {
                change(waits.get());
                waits.set(waits.get() + 1);
            });
            (has_space, waits.get())
        }

        fn make_room(&self) {
            self.release();
            self.backpressure.made_room();
        }
    }

    #[test]
    fn a_drain_that_writes_is_waited_for_as_long_as_a_disk_may_take() {
        let full = Full::new();
        full.backpressure.set_writing(true);
        assert_eq!(full.wait(|_| {}), (false, 2));
    }

    #[test]
    fn a_drain_that_gets_no_turn_is_waited_for_ten_times_as_long() {
        assert_eq!(Full::new().wait(|_| {}), (false, 20));
        let full = Full::new();
        let result = full.wait(|waits| {
            if waits == 15 {
                full.make_room();
            }
        });
        assert_eq!(result, (true, 16));
    }

    #[test]
    fn a_busy_drain_is_waited_for_longer_still_and_not_for_ever() {
        let full = Full::new();
        full.backpressure.set_busy(true);
        let result = full.wait(|waits| {
            if waits == 30 {
                full.make_room();
            }
        });
        assert_eq!(result, (true, 31));
        let full = Full::new();
        full.backpressure.set_busy(true);
        assert_eq!(full.wait(|_| {}), (false, 40));
    }

    #[test]
    fn progress_starts_the_wait_again() {
        let full = Full::new();
        full.backpressure.set_writing(true);
        // Other threads take the slot.
        let result = full.wait(|waits| {
            if waits == 1 {
                full.replace();
            }
        });
        assert_eq!(result, (false, 4));
    }

    #[test]
    fn after_a_stall_there_is_no_wait_until_the_drain_makes_progress() {
        let full = Full::new();
        full.backpressure.set_writing(true);
        assert_eq!(full.wait(|_| {}), (false, 2));
        assert_eq!(full.wait(|_| {}), (false, 0));
        full.replace();
        assert_eq!(full.wait(|_| {}), (false, 2));
        full.backpressure.give_up();
        full.make_room();
        assert_eq!(full.wait(|_| {}), (true, 0));
    }
}

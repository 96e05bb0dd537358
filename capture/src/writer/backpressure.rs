//! Waiting for room in the ring, and waking the drain that makes it.
//!
//! The futex words are in this process's own memory: nobody outside may wake or delay us.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use gpumem_sys::wait;

use crate::ring::Ring;

/// How much longer a producer waits for a drain that could write to the file and does not: all that it can want for
/// is its turn on a processor. On a machine with many more programs than processors that may take longer than
/// anything that a disk does.
const FOR_A_TURN: u32 = 10;
/// How long a producer waits in all when the drain moves but others take all the room: so many times as long as for a
/// drain that does not move.
const IN_ALL: u32 = 2;
/// How long a producer sleeps at a time.
const SLICE: Duration = Duration::from_millis(10);
/// How long the drain sleeps when nobody wakes it.
const DRAIN_SLEEP: Duration = Duration::from_millis(50);

/// No stall.
const NONE: u64 = u64::MAX;

pub(super) struct Backpressure {
    /// How long producers wait for a drain that writes and does not move.
    stall: Duration,
    /// The same for one that does not write.
    for_a_turn: Duration,
    /// The tail at which a stall was declared: as long as it stands there, nobody waits.
    stalled_at: AtomicU64,
    /// The drain has said that it cannot write: nobody waits.
    hopeless: AtomicBool,
    /// The drain is at work and will move: waiting is worth while.
    busy: AtomicBool,
    /// The drain is in a call that writes to the file, which may take for ever.
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

    /// Waits until `slots` slots were free at some moment: true. False: a stall was declared, now or
    /// earlier, and nobody should wait again until the tail moves.
    ///
    /// How long it has waited is what the kernel has slept. A clock only shortens that by the rest of a
    /// slice: one that is put forward must not make a stall, nor one that stands still hold the program up.
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
                // When it is done it still has to move the tail.
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

    /// The drain has made room.
    pub(super) fn made_room(&self) {
        self.hopeless.store(false, Ordering::Relaxed);
        self.made.fetch_add(1, Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) != 0 {
            wait::wake(&self.made);
        }
    }

    /// Whether the drain is at something that takes a while, after which it makes room. Producers then wait
    /// for it longer than for one that does not move.
    pub(super) fn set_busy(&self, busy: bool) {
        self.busy.store(busy, Ordering::Relaxed);
    }

    /// Whether the drain is in a call that writes to the file.
    pub(super) fn set_writing(&self, writing: bool) {
        self.writing.store(writing, Ordering::Relaxed);
    }

    /// The drain cannot make room.
    pub(super) fn give_up(&self) {
        self.hopeless.store(true, Ordering::Relaxed);
        self.made.fetch_add(1, Ordering::SeqCst);
        wait::wake(&self.made);
    }

    /// There is work for the drain.
    #[cold]
    pub(super) fn wake_drain(&self) {
        self.work.fetch_add(1, Ordering::Release);
        wait::wake(&self.work);
    }

    /// A mark to hand to [`Backpressure::sleep`]: take it before looking for work.
    pub(super) fn work_mark(&self) -> u32 {
        self.work.load(Ordering::Acquire)
    }

    /// Sleeps until there is work that came after `mark`, or a while; returns how long that was.
    pub(super) fn sleep(&self, mark: u32) -> Duration {
        wait::sleep(&self.work, mark, DRAIN_SLEEP)
    }
}

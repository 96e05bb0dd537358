//! The record of losses: how much, and between which times.

use core::sync::atomic::{AtomicU64, Ordering};

use gpumem_sys::threads;

use super::head::Head;
use super::rows::LONGEST_HOLD;
use crate::Nanos;
use crate::checksum::Checks;
use crate::layout::{LOSS_RANGES, dynamic};
use crate::lock::Lock;

/// No range is open.
const NONE: u64 = u64::MAX;

/// Writes the head's totals and its table of losses, with one range for each stall.
pub(super) struct Losses {
    lock: Lock,
    /// First time, last time and events of the newest range.
    range: [AtomicU64; 3],
    /// The tail at which the open range's stall was declared.
    stall: AtomicU64,
    /// Ranges in use.
    used: AtomicU64,
    events: AtomicU64,
    definitions: AtomicU64,
    /// The number of updates of the totals.
    stored: AtomicU64,
}

impl Losses {
    pub(super) fn new() -> Self {
        Self {
            lock: Lock::default(),
            range: Default::default(),
            stall: AtomicU64::new(NONE),
            used: AtomicU64::new(0),
            events: AtomicU64::new(0),
            definitions: AtomicU64::new(0),
            stored: AtomicU64::new(0),
        }
    }

    /// Events lost so far.
    pub(super) fn events(&self) -> u64 {
        self.events.load(Ordering::Relaxed)
    }

    /// Counts an event of that time as lost in the stall with that tail. When the table is full, its last range
    /// grows.
    pub(super) fn event(&self, head: &Head, checks: &Checks, time: Nanos, stall: u64) {
        self.locked(|| {
            let used = self.used.load(Ordering::Relaxed);
            let full = used as usize == LOSS_RANGES;
            let is_new = used == 0 || (self.stall.load(Ordering::Relaxed) != stall && !full);
            let index = if is_new { used } else { used - 1 };
            if let Some(range) = head.loss_table.get(index as usize) {
                let [first, last, events] = if is_new {
                    [time.0, time.0, 0]
                } else {
                    self.range
                        .each_ref()
                        .map(|word| word.load(Ordering::Relaxed))
                };
                let grown = [first.min(time.0), last.max(time.0), events + 1];
                for (word, to) in self.range.iter().zip(grown) {
                    word.store(to, Ordering::Relaxed);
                }
                range.store(checks, dynamic::LOSS_TABLE + 32 * index, grown);
            }
            self.stall.store(stall, Ordering::Relaxed);
            self.used.store(index + 1, Ordering::Relaxed);
            self.events.fetch_add(1, Ordering::Relaxed);
            self.store_totals(head, checks);
        });
    }

    /// Counts a definition as refused.
    pub(super) fn definition(&self, head: &Head, checks: &Checks) {
        self.locked(|| {
            self.definitions.fetch_add(1, Ordering::Relaxed);
            self.store_totals(head, checks);
        });
    }

    fn store_totals(&self, head: &Head, checks: &Checks) {
        let stored = self.stored.fetch_add(1, Ordering::Relaxed) + 1;
        let [even, odd] = &head.lost.0;
        let (copy, place) = if stored.is_multiple_of(2) {
            (even, dynamic::LOST)
        } else {
            (odd, dynamic::LOST + 32)
        };
        let definitions = self.definitions.load(Ordering::Relaxed);
        copy.store(checks, place, [self.events(), definitions, stored]);
    }

    /// Runs `body` with exclusive access to the table; it takes a few nanoseconds and cannot block. A loss is
    /// not counted if the thread that holds the table is lost.
    fn locked(&self, body: impl FnOnce()) {
        if let Some(_held) = self.lock.lock(threads::own(), LONGEST_HOLD) {
            body();
        }
    }
}

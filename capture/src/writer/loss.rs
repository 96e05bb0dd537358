//! The account of what was lost: how much, and between which times.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::head::Head;
use crate::Nanos;
use crate::layout::{LOSS_RANGES, dynamic};

/// No range is open.
const NONE: u64 = u64::MAX;

/// Writes the head's table of losses, one range for each stall.
pub(super) struct Losses {
    lock: AtomicBool,
    /// The tail at which the open range's stall was declared.
    stall: AtomicU64,
    used: AtomicU64,
}

impl Losses {
    pub(super) const fn new() -> Self {
        Self {
            lock: AtomicBool::new(false),
            stall: AtomicU64::new(NONE),
            used: AtomicU64::new(0),
        }
    }

    /// Counts an event of that time as lost in the stall with that tail.
    ///
    /// The range is stored before the total, each with its check: a reader of a process that died in
    /// between finds them one apart. When the table is full the last range grows.
    pub(super) fn event(&self, head: &Head, nonce: u64, time: Nanos, stall: u64) {
        while self
            .lock
            .compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            super::sys::yield_now();
        }
        let used = self.used.load(Ordering::Relaxed);
        let full = used as usize == LOSS_RANGES;
        let is_new = used == 0 || (self.stall.load(Ordering::Relaxed) != stall && !full);
        let index = if is_new { used } else { used - 1 };
        if let Some(range) = head.loss_table.get(index as usize) {
            let [first, last, events] = if is_new {
                [time.0, time.0, 0]
            } else {
                range.load()
            };
            let place = dynamic::LOSS_TABLE + 32 * index;
            range.store(
                nonce,
                place,
                [first.min(time.0), last.max(time.0), events + 1],
            );
        }
        self.stall.store(stall, Ordering::Relaxed);
        self.used.store(index + 1, Ordering::Relaxed);
        head.lost.0.events.fetch_add(1, Ordering::Relaxed);
        self.lock.store(false, Ordering::Release);
    }
}

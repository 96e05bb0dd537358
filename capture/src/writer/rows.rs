//! The counters of each device and level, in this process's own memory. The capture gets copies of them as of one
//! position in the order of records: [`super::counter_snapshot`].

use core::time::Duration;
use std::sync::atomic::AtomicU64 as Bits;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::layout;
use crate::lock::{Guard, Lock};
use crate::sync::{AtomicU64, Ordering};
use crate::{CounterValues, DeviceOrdinal, Event, EventKind, Level};

/// How long a thread waits for a row whose holder makes no progress until it looks what became of that. A row is held for
/// about twenty nanoseconds.
pub(super) const LONGEST_HOLD: Duration = Duration::from_secs(1);

/// All rows.
pub(super) struct Rows(Box<[Row]>);

impl Rows {
    pub(super) fn new() -> Self {
        Self((0..layout::COUNTER_ROWS).map(|_| Row::default()).collect())
    }

    #[inline]
    pub(super) fn get(&self, number: u64) -> Option<&Row> {
        self.0.get(number as usize)
    }
}

/// The counters of one (device, level), on a separate cache line.
#[derive(Default)]
#[repr(C, align(64))]
pub(super) struct Row {
    values: [AtomicU64; 5],
    /// The peak since the newest snapshot ([`super::counter_snapshot`]).
    since_snapshot: AtomicU64,
    lock: Lock,
}

impl Row {
    /// Live bytes: the only figure that is meaningful by itself.
    #[inline]
    pub(super) fn live(&self) -> u64 {
        let [live, ..] = &self.values;
        live.load(Ordering::Acquire)
    }

    /// Locks the row for the calling thread with that id. None if its holder is lost.
    #[inline]
    pub(super) fn lock(&self, own: u32) -> Option<LockedRow<'_>> {
        let guard = self.lock.lock(own, LONGEST_HOLD)?;
        Some(LockedRow { row: self, guard })
    }
}

/// The change of the most frequent events.
#[derive(Clone, Copy)]
pub(super) enum Change {
    Allocated(u64),
    Freed(u64),
}

impl Change {
    /// None for an event with another change, or without one.
    #[inline]
    pub(super) fn of(event: &Event) -> Option<Self> {
        if event.kind == EventKind::ALLOC {
            Some(Self::Allocated(event.bytes))
        } else if event.kind == EventKind::FREE && CounterValues::counts(event) {
            Some(Self::Freed(event.bytes))
        } else {
            None
        }
    }
}

/// A locked row.
pub(super) struct LockedRow<'a> {
    row: &'a Row,
    guard: Guard<'a>,
}

impl LockedRow<'_> {
    #[inline]
    pub(super) fn values(&self) -> CounterValues {
        let [live, peak, allocations, frees, allocated_bytes] = &self.row.values;
        CounterValues {
            live: live.load(Ordering::Relaxed),
            peak: peak.load(Ordering::Relaxed),
            allocations: allocations.load(Ordering::Relaxed),
            frees: frees.load(Ordering::Relaxed),
            allocated_bytes: allocated_bytes.load(Ordering::Relaxed),
        }
    }

    /// The number of changes of the row, modulo 2^31.
    #[inline]
    pub(super) fn changes(&self) -> u32 {
        self.guard.changes()
    }

    /// The peak since the newest snapshot.
    #[inline]
    pub(super) fn since_snapshot(&self) -> u64 {
        self.row.since_snapshot.load(Ordering::Relaxed)
    }

    /// Resets the peak since the snapshot to the live bytes.
    pub(super) fn begin_anew(&self) {
        let [live, ..] = &self.row.values;
        let live = live.load(Ordering::Relaxed);
        self.row.since_snapshot.store(live, Ordering::Relaxed);
    }

    /// Makes a change, and returns the live bytes after it.
    #[inline(always)]
    pub(super) fn change(&mut self, change: Change) -> u64 {
        let [live, peak, allocations, frees, allocated_bytes] = &self.row.values;
        // No other thread stores here while the row is locked.
        let set = |word: &AtomicU64, to: u64| word.store(to, Ordering::Relaxed);
        let before = live.load(Ordering::Relaxed);
        let now = match change {
            Change::Allocated(bytes) => {
                let now = before.wrapping_add(bytes);
                let all = allocated_bytes.load(Ordering::Relaxed);
                set(allocated_bytes, all.wrapping_add(bytes));
                let count = allocations.load(Ordering::Relaxed);
                set(allocations, count.wrapping_add(1));
                if now > peak.load(Ordering::Relaxed) {
                    set(peak, now);
                }
                if now > self.since_snapshot() {
                    set(&self.row.since_snapshot, now);
                }
                now
            }
            Change::Freed(bytes) => {
                let count = frees.load(Ordering::Relaxed);
                set(frees, count.wrapping_add(1));
                before.saturating_sub(bytes)
            }
        };
        set(live, now);
        self.guard.changed();
        now
    }

    /// Sets these figures.
    pub(super) fn take(&mut self, new: &CounterValues) {
        for (to, from) in self.row.values.iter().zip(new.words()) {
            to.store(from, Ordering::Relaxed);
        }
        if new.live > self.since_snapshot() {
            self.row.since_snapshot.store(new.live, Ordering::Relaxed);
        }
        self.guard.changed();
    }
}

const WORDS: usize = (layout::COUNTER_ROWS / 64) as usize;

/// The rows in which something is counted.
pub(super) struct Used {
    bits: [Bits; WORDS],
    /// Held while a row becomes used, and while a snapshot of all that are used is taken.
    changing: Mutex<()>,
}

impl Used {
    pub(super) fn new() -> Self {
        Self {
            bits: [const { Bits::new(0) }; WORDS],
            changing: Mutex::new(()),
        }
    }

    pub(super) fn hold(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that a row is about to be used for the first time.
    #[cold]
    pub(super) fn note(&self, row: u64) {
        let _held = self.hold();
        if let Some(word) = self.bits.get((row / 64) as usize) {
            word.fetch_or(1 << (row % 64), Ordering::Relaxed);
        }
    }

    /// The used rows, ascending; must be called while they are locked.
    pub(super) fn rows(&self) -> impl Iterator<Item = u64> {
        let words = self.bits.iter().map(|word| word.load(Ordering::Relaxed));
        words.zip(0..).flat_map(|(word, number)| {
            (0..64)
                .filter(move |bit| word >> bit & 1 == 1)
                .map(move |bit| 64 * number + bit)
        })
    }
}

/// A row of counters in a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowSnapshot {
    /// Its number: by device and level, below 256.
    pub row: u8,
    /// Its figures.
    pub values: CounterValues,
    /// The peak since the newest earlier snapshot that reset it.
    pub since_snapshot: u64,
    /// The number of its changes, modulo 2^31.
    pub changes: u32,
}

impl RowSnapshot {
    /// The number of the row of a device and level; None for one that has no counters.
    pub fn number(device: DeviceOrdinal, level: Level) -> Option<u8> {
        u8::try_from(layout::row_number(device, level)?).ok()
    }

    pub(super) fn of(row: u8, locked: &LockedRow<'_>) -> Self {
        Self {
            row,
            values: locked.values(),
            since_snapshot: locked.since_snapshot(),
            changes: locked.changes(),
        }
    }
}

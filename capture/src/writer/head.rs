//! The file's head as the writer maps it: atomics at the places that [`crate::layout`] gives.

use core::mem::offset_of;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use crate::checksum::Checks;
use crate::index;
use crate::layout::{self, LOSS_RANGES, dynamic};
use crate::{CounterValues, Event, EventKind};

/// A cache line of its own.
#[repr(C, align(64))]
pub(super) struct Line<T>(pub(super) T);

/// What the drain moves.
#[repr(C)]
pub(super) struct Drained {
    pub(super) tail: AtomicU64,
    pub(super) pages_end: AtomicU64,
}

/// Three facts and their check: written rarely, by one thread at a time.
#[repr(C)]
pub(super) struct Checked {
    words: [AtomicU64; 3],
    check: AtomicU64,
}

impl Checked {
    /// Stores the facts; `place` is this object's offset in the file.
    pub(super) fn store(&self, checks: &Checks, place: u64, facts: [u64; 3]) {
        for (to, from) in self.words.iter().zip(facts) {
            to.store(from, Ordering::Relaxed);
        }
        self.check
            .store(checks.words(place, &facts), Ordering::Release);
    }

    /// The facts as they are.
    pub(super) fn load(&self) -> [u64; 3] {
        [&self.words[0], &self.words[1], &self.words[2]].map(|word| word.load(Ordering::Relaxed))
    }
}

/// A sealed number that threads add to and take from.
#[repr(C)]
pub(super) struct Defining(AtomicU64);

impl Defining {
    /// So many more slots are about to be written; taken back when the result goes. A process that dies between
    /// reserving a record and saying how long it is leaves blank slots: the reader then knows of them.
    pub(super) fn begin(&self, slots: u64, nonce: u64) -> DefiningNow<'_> {
        self.change(nonce, |number| number.saturating_add(slots));
        DefiningNow {
            of: self,
            slots,
            nonce,
        }
    }

    fn change(&self, nonce: u64, to: impl Fn(u64) -> u64) {
        let changed = |word| Some(index::seal(to(index::value(word)), nonce));
        let _ = self
            .0
            .fetch_update(Ordering::SeqCst, Ordering::Relaxed, changed);
    }
}

/// Slots that are being written.
pub(super) struct DefiningNow<'a> {
    of: &'a Defining,
    slots: u64,
    nonce: u64,
}

impl Drop for DefiningNow<'_> {
    fn drop(&mut self) {
        let slots = self.slots;
        self.of
            .change(self.nonce, |number| number.saturating_sub(slots));
    }
}

/// The mapped part of the file between the static header and the ring.
#[repr(C, align(4096))]
pub(super) struct Head {
    static_header: [u8; 4096],
    pub(super) head: Line<AtomicU64>,
    pub(super) drained: Line<Drained>,
    /// State (1: clean exit), time.
    pub(super) end: Line<Checked>,
    /// errno, failures so far, time of the first.
    pub(super) drain_error: Line<Checked>,
    /// Events and definitions lost, and how often this was stored: the odd times in the second copy,
    /// so that one is always whole.
    pub(super) lost: Line<[Checked; 2]>,
    /// Slots of definitions that threads are about to write.
    pub(super) defining: Line<Defining>,
    unused: [Line<[u64; 8]>; 2],
    /// First time, last time, events.
    pub(super) loss_table: [Checked; LOSS_RANGES],
    unused_end: [u8; 4096 - 512 - 32 * LOSS_RANGES],
    rows: [Row; layout::COUNTER_ROWS as usize],
}

const _: () = {
    assert!(offset_of!(Head, head) as u64 == dynamic::HEAD);
    assert!(offset_of!(Head, drained) as u64 == dynamic::TAIL);
    assert!(dynamic::TAIL + 8 == dynamic::PAGES_END);
    assert!(offset_of!(Head, end) as u64 == dynamic::END);
    assert!(offset_of!(Head, drain_error) as u64 == dynamic::DRAIN_ERROR);
    assert!(offset_of!(Head, lost) as u64 == dynamic::LOST);
    assert!(offset_of!(Head, defining) as u64 == dynamic::DEFINING);
    assert!(offset_of!(Head, loss_table) as u64 == dynamic::LOSS_TABLE);
    assert!(offset_of!(Head, rows) as u64 == layout::COUNTERS_OFFSET);
    assert!(size_of::<Head>() as u64 == layout::RING_OFFSET);
};

impl Head {
    #[inline]
    pub(super) fn row(&self, number: u64) -> Option<&Row> {
        self.rows.get(number as usize)
    }
}

/// The counters of one (device, level), in a cache line of their own.
///
/// `version` is odd while the row is being updated and grows by 2 with each update: the lock of the
/// row's writers, and how a reader of the file knows a row that the process died over.
#[repr(C, align(64))]
pub(super) struct Row {
    values: [AtomicU64; 5],
    version: AtomicU32,
    unused: u32,
    check: AtomicU64,
    /// The most that was live at once since the newest cut ([`super::cut`]): for the recorder alone.
    since_cut: AtomicU64,
}

impl Row {
    /// Live bytes: of its figures the one that makes sense alone.
    #[inline]
    pub(super) fn live(&self) -> u64 {
        let [live, ..] = &self.values;
        live.load(Ordering::Acquire)
    }

    /// Locks the row: waits for some microseconds, then gives the processor away. What the lock covers takes some
    /// twenty nanoseconds and can neither block nor fail.
    #[inline]
    pub(super) fn lock(&self) -> LockedRow<'_> {
        let version = match self.try_lock() {
            Some(version) => version,
            None => self.lock_in_turn(),
        };
        // No figure may be stored before the odd version is.
        fence(Ordering::Release);
        LockedRow {
            row: self,
            version,
            after: version,
        }
    }

    /// The version before, if the row was not locked.
    #[inline(always)]
    fn try_lock(&self) -> Option<u32> {
        let version = self.version.load(Ordering::Relaxed);
        let odd = version.wrapping_add(1);
        (version & 1 == 0
            && self
                .version
                .compare_exchange_weak(version, odd, Ordering::Acquire, Ordering::Relaxed)
                .is_ok())
        .then_some(version)
    }

    #[cold]
    fn lock_in_turn(&self) -> u32 {
        loop {
            // Ever longer between looks: each takes the row's cache line from whoever holds the lock, and so does
            // one handover after the other.
            for pauses in [1, 4, 16, 64, 256] {
                for _ in 0..pauses {
                    core::hint::spin_loop();
                }
                if let Some(version) = self.try_lock() {
                    return version;
                }
            }
            super::sys::yield_now();
        }
    }
}

/// What the most frequent events change.
#[derive(Clone, Copy)]
pub(super) enum Change {
    Allocated(u64),
    Freed(u64),
}

impl Change {
    /// None for an event that changes something else, or nothing.
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

/// A row that this thread has to itself.
pub(super) struct LockedRow<'a> {
    row: &'a Row,
    version: u32,
    /// The version to leave behind: the same if nothing changed.
    after: u32,
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

    /// Whether nothing was ever counted in the row.
    #[inline]
    pub(super) fn is_unused(&self) -> bool {
        self.version == 0
    }

    /// The most that was live at once since the newest cut.
    #[inline]
    pub(super) fn since_cut(&self) -> u64 {
        self.row.since_cut.load(Ordering::Relaxed)
    }

    /// Cuts here: what is live now is the most that was, so far.
    pub(super) fn cut(&self) {
        let [live, ..] = &self.row.values;
        let live = live.load(Ordering::Relaxed);
        self.row.since_cut.store(live, Ordering::Relaxed);
    }

    /// Makes a change, and says what is live after it; `place` is the row's offset in the file.
    #[inline(always)]
    pub(super) fn change(&mut self, change: Change, checks: &Checks, place: u64) -> u64 {
        let [live, peak, allocations, frees, allocated_bytes] = &self.row.values;
        // Nobody else stores here as long as the row is locked.
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
                if now > self.since_cut() {
                    set(&self.row.since_cut, now);
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
        self.changed(checks, place);
        now
    }

    /// Takes those figures; `place` is the row's offset in the file.
    pub(super) fn take(&mut self, new: &CounterValues, checks: &Checks, place: u64) {
        for (to, from) in self.row.values.iter().zip(new.words()) {
            to.store(from, Ordering::Relaxed);
        }
        if new.live > self.since_cut() {
            self.row.since_cut.store(new.live, Ordering::Relaxed);
        }
        self.changed(checks, place);
    }

    #[inline(always)]
    fn changed(&mut self, checks: &Checks, place: u64) {
        self.after = self.version.wrapping_add(2);
        let check = checks.row(place, &self.row.values, self.after);
        self.row.check.store(check, Ordering::Relaxed);
    }
}

impl Drop for LockedRow<'_> {
    #[inline]
    fn drop(&mut self) {
        self.row.version.store(self.after, Ordering::Release);
    }
}

//! The ring's protocol: many producers, one consumer. The slots may be in memory that other processes map. The
//! two indexes are in this process's own memory, so that no other process can make a loop over them endless.
//!
//! ```text
//!            tail                         head
//!  ──────────┼──────────────────────────────┼────────────► sequence number
//!   zeroed   │ committed, committed, …, being written │  zeroed
//! ```
//! - A producer **reserves** `[seq, seq + n)` by moving `head`, only when `head + n` is not above `end`, which is the
//!   capacity after `tail`, and in the first lap the end of the slots that have memory. It then owns slot `seq mod
//!   capacity`.
//! - It stores the record and **commits** it by storing the commit word last.
//! - The consumer takes committed records from `tail` on, zeroes their slots and moves `tail` and `end`.
//!
//! # Memory ordering
//! - *commit → consume*: the commit word is stored with Release after the record's other words and
//!   loaded with Acquire before them, so a consumer that sees the commit word sees the whole record.
//! - *consume → reuse*: the consumer's zeroing is published by the Release change of `end`; a producer
//!   that reserves has loaded that `end` with Acquire, so its stores come after the zeroing.
//! - *order of records*: `head` moves by compare-exchange only. Read-modify-writes of one atomic have a single
//!   order that agrees with happens-before. So a thread that frees (reserves, then frees) comes before the
//!   thread that then gets the same address (allocates, then reserves). Relaxed is sufficient, because no other
//!   data is published through `head`.
//!
//! Because consumed slots are zeroed, a slot whose commit word is 0 is untouched or in flight, and a
//! slot whose commit word is neither 0 nor its own was damaged: no third case.

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;

use crate::checksum::{self, Checks};
use crate::slot::{self, SLOT_BYTES};
use crate::sync::{AtomicU64, Ordering, expect_store, fence};

/// How many slots ahead a slot is prefetched. The drain, on another core, was the last to access it: without
/// the prefetch, a producer would wait for the cache line at the next atomic operation, 200 ns in a training.
/// Far enough from the slots that other threads are writing at the same time.
const AHEAD: u64 = 8;
/// Slots of a page of memory.
const PAGE_SLOTS: usize = 4096 / SLOT_BYTES;

/// One slot: word 0 is the commit word of the record that starts here, or payload.
#[repr(C, align(64))]
pub(crate) struct Slot(pub(crate) [AtomicU64; 8]);

/// An index on a separate cache line.
#[repr(C, align(64))]
struct Index(AtomicU64);

/// The indexes of a ring, in the memory of one process.
pub(crate) struct Indexes {
    head: Index,
    tail: Index,
    /// Producers reserve up to here.
    end: Index,
    /// The slots that have memory; [`ALL`] once all have.
    backed: AtomicU64,
}

/// All slots have memory.
const ALL: u64 = u64::MAX;

impl Indexes {
    /// Those of an empty ring of `capacity` slots, of which the first `backed` have memory.
    pub(crate) fn new(capacity: u64, backed: u64) -> Self {
        let [head, tail, end] = [0, 0, backed.min(capacity)].map(|at| Index(AtomicU64::new(at)));
        Self {
            head,
            tail,
            end,
            backed: AtomicU64::new(if backed < capacity { backed } else { ALL }),
        }
    }
}

/// The protocol over borrowed memory.
pub(crate) struct Ring<'a> {
    head: &'a AtomicU64,
    end: &'a AtomicU64,
    tail: &'a AtomicU64,
    backed: &'a AtomicU64,
    slots: &'a [Slot],
    checks: Checks,
}

/// What a scan of the ring finds at a sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scan {
    /// A committed record of this many slots; its first slot's words.
    Record(u64, [u64; 8]),
    /// Nothing committed yet.
    Pending,
    /// The slot was overwritten: it is neither empty nor a valid record.
    Damaged,
}

impl<'a> Ring<'a> {
    /// `slots.len()` is a power of two (the caller has checked).
    pub(crate) fn new(indexes: &'a Indexes, slots: &'a [Slot], checks: Checks) -> Self {
        debug_assert!(slots.len().is_power_of_two());
        Self {
            head: &indexes.head.0,
            end: &indexes.end.0,
            tail: &indexes.tail.0,
            backed: &indexes.backed,
            slots,
            checks,
        }
    }

    /// The capture's checksums.
    #[inline]
    pub(crate) fn checks(&self) -> &Checks {
        &self.checks
    }

    /// Number of slots.
    #[inline]
    pub(crate) fn capacity(&self) -> u64 {
        self.slots.len() as u64
    }

    /// Next sequence number to be reserved.
    #[inline]
    pub(crate) fn head(&self) -> u64 {
        self.head.load(Ordering::Relaxed)
    }

    /// First sequence number that the consumer has not taken.
    #[inline]
    pub(crate) fn tail(&self) -> u64 {
        self.tail.load(Ordering::Acquire)
    }

    /// Whether `count` slots were free recently.
    #[inline]
    pub(crate) fn has_space(&self, count: u64) -> bool {
        self.head() + count <= self.end.load(Ordering::Acquire)
    }

    /// The slots that have memory, from the first one on; None if all have.
    pub(crate) fn backed(&self) -> Option<u64> {
        Some(self.backed.load(Ordering::Acquire)).filter(|backed| *backed != ALL)
    }

    /// Lets producers use the first `backed` slots, which have memory from now on. One thread at a time.
    pub(crate) fn back(&self, backed: u64) {
        let backed = if backed < self.capacity() {
            backed
        } else {
            ALL
        };
        self.backed.store(backed, Ordering::Release);
        self.move_end();
    }

    /// Moves the end of what may be reserved, after a change of `tail` or of `backed`. Of two threads that change one each,
    /// the later one sees both.
    fn move_end(&self) {
        fence(Ordering::SeqCst);
        let end = (self.tail() + self.capacity()).min(self.backed.load(Ordering::Acquire));
        self.end.fetch_max(end, Ordering::AcqRel);
    }

    /// Hints to the processor that a reservation follows soon.
    #[inline]
    pub(crate) fn expect_reservation(&self) {
        expect_store(self.head);
    }

    /// Stores to every page of the slots that have memory, without changing them. The kernel maps pages of a shared
    /// file read-only at first; after this, stores to them do not fault.
    pub(crate) fn touch(&self) {
        let backed = self
            .backed()
            .map_or(self.slots.len(), |backed| backed as usize);
        for Slot([commit, ..]) in self.slots.iter().take(backed).step_by(PAGE_SLOTS) {
            // The compiler would turn an addition of 0 into a load.
            let _ = commit.compare_exchange(0, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Reserves `count` slots; None if they are not free. Never waits.
    #[inline]
    pub(crate) fn reserve(&self, count: u64) -> Option<u64> {
        let head = self.head.load(Ordering::Relaxed);
        match self.try_reserve(head, count) {
            Ok(reserved) => reserved,
            Err(now) => self.reserve_in_turn(now, count),
        }
    }

    /// One attempt with `head` as the expected head; `Err` is the current head.
    #[inline(always)]
    fn try_reserve(&self, head: u64, count: u64) -> Result<Option<u64>, u64> {
        // A stale `head` may be before `tail`; the exchange then fails.
        if head + count > self.end.load(Ordering::Acquire) {
            return Ok(None);
        }
        self.head
            .compare_exchange_weak(head, head + count, Ordering::Relaxed, Ordering::Relaxed)
            .map(|_| Some(head))
    }

    #[cold]
    fn reserve_in_turn(&self, mut head: u64, count: u64) -> Option<u64> {
        loop {
            match self.try_reserve(head, count) {
                Ok(reserved) => return reserved,
                Err(now) => head = now,
            }
        }
    }

    #[inline(always)]
    fn slot(&self, seq: u64) -> Option<&[AtomicU64; 8]> {
        let index = seq & (self.capacity() - 1);
        self.slots.get(index as usize).map(|slot| &slot.0)
    }

    /// Stores all words except the commit word.
    #[inline(always)]
    fn store_body(slot: &[AtomicU64; 8], words: &[u64; 8]) {
        let ([_, slot @ ..], [_, words @ ..]) = (slot, words);
        for (to, from) in slot.iter().zip(words) {
            to.store(*from, Ordering::Relaxed);
        }
    }

    /// Writes and commits a record of one slot that the caller has reserved.
    #[inline(always)]
    pub(crate) fn commit(&self, seq: u64, words: &[u64; 8]) {
        if let Some(slot) = self.slot(seq) {
            Self::store_body(slot, words);
            let [commit, ..] = slot;
            commit.store(self.checks.slot(seq, slot), Ordering::Release);
        }
        if let Some(later) = self.slot(seq + AHEAD) {
            expect_store(later);
        }
    }

    /// Writes and commits a record of several reserved slots: `words` in the first, the concatenation
    /// of `parts`, padded with zeros, in the others.
    pub(crate) fn commit_with_payload(&self, seq: u64, words: &[u64; 8], parts: &[&[u8]]) {
        let Some(first) = self.slot(seq) else { return };
        Self::store_body(first, words);
        // If the process dies while the payload is being copied, the first slot gives the reader the number of
        // slots of the unfinished record.
        fence(Ordering::Release);
        let mut bytes = parts.iter().flat_map(|part| part.iter().copied());
        let payload = (1..slot::slots_of(words)).map(|n| {
            let mut payload = [0_u64; 8];
            for word in &mut payload {
                let mut le = [0; 8];
                for byte in &mut le {
                    *byte = bytes.next().unwrap_or(0);
                }
                *word = u64::from_le_bytes(le);
            }
            if let Some(slot) = self.slot(seq + n) {
                for (to, from) in slot.iter().zip(payload) {
                    to.store(from, Ordering::Relaxed);
                }
            }
            payload
        });
        let word = self.checks.record(seq, words, payload);
        let [commit, ..] = first;
        commit.store(word, Ordering::Release);
    }

    /// Words of one slot, word 0 with Acquire before the others.
    fn load(&self, seq: u64) -> [u64; 8] {
        let mut words = [0; 8];
        if let Some(slot) = self.slot(seq) {
            for (n, (to, from)) in words.iter_mut().zip(slot).enumerate() {
                *to = from.load(if n == 0 {
                    Ordering::Acquire
                } else {
                    Ordering::Relaxed
                });
            }
        }
        words
    }

    /// The state of `seq`, which must be in `[tail, head)`. Consumer only.
    pub(crate) fn scan(&self, seq: u64) -> Scan {
        let words = self.load(seq);
        match words[0] {
            0 => return Scan::Pending,
            commit if commit as u32 != checksum::tag(seq, self.checks.nonce) => {
                return Scan::Damaged;
            }
            _ => {}
        }
        let count = slot::slots_of(&words);
        if count == 0 || count > self.capacity() {
            return Scan::Damaged;
        }
        let others = (1..count).map(|n| self.load(seq + n));
        if self.checks.record(seq, &words, others) == words[0] {
            Scan::Record(count, words)
        } else {
            Scan::Damaged
        }
    }

    /// Appends the payload of the record at `seq`, which [`Ring::scan`] has found. Consumer only.
    pub(crate) fn copy_payload(&self, seq: u64, words: &[u64; 8], to: &mut Vec<u8>) {
        let length = slot::payload_bytes_of(words) as usize;
        let wanted = to.len() + length.min(self.slots.len() * SLOT_BYTES);
        for n in 1..slot::slots_of(words) {
            for word in self.load(seq + n) {
                to.extend_from_slice(&word.to_le_bytes());
            }
        }
        to.truncate(wanted);
    }

    /// Appends the slots of a range between tail and head, as bytes.
    pub(crate) fn copy_slots(&self, range: core::ops::Range<u64>, to: &mut Vec<u8>) {
        for seq in range {
            for word in self.load(seq) {
                to.extend_from_slice(&word.to_le_bytes());
            }
        }
    }

    /// Zeroes the slots in `[tail, upto)` and releases them. Consumer only.
    pub(crate) fn release(&self, upto: u64) {
        for seq in self.tail()..upto {
            if let Some(slot) = self.slot(seq) {
                for word in slot {
                    word.store(0, Ordering::Relaxed);
                }
            }
        }
        self.tail.store(upto, Ordering::Release);
        self.move_end();
    }

    /// The end of the records from `from` on that are committed without a gap. Consumer only.
    pub(crate) fn committed(&self, from: u64) -> u64 {
        let (mut seq, head) = (from.max(self.tail()), self.head());
        while seq < head
            && let Scan::Record(count, _) = self.scan(seq)
        {
            seq += count;
        }
        seq
    }
}

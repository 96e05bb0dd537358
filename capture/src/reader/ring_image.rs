//! The records that had not reached a page: an image of the ring, and its committed records.

use std::cell::Cell;
use std::ops::Range;

use super::cursor::Cursor;
use super::dynamic::Dynamic;
use super::error::ReadError;
use super::input::Input;
use crate::checksum::{self, Checks};
use crate::slot::{self, SLOT_BYTES};
use crate::{DefKind, EventKind, layout};

/// The number of slots to read at once when following.
const AT_ONCE: u64 = 256;
/// How often all slots may be part of records whose checksum does not match: those of a damaged file may overlap.
const IN_VAIN: u64 = 8;

pub(super) struct RingImage {
    /// Complete slots, as many as the file has.
    bytes: Vec<u8>,
    /// The number of slots that the file had.
    have: usize,
    capacity: u64,
    checks: Checks,
    /// Its offset.
    at: u64,
    /// For a journal that is older than its ring: the end of what is known.
    limit: Option<u64>,
    /// The number of slots whose checksums were computed in vain.
    in_vain: Cell<u64>,
}

/// A slot, when a certain record is expected in it.
enum Slot {
    /// A committed record of that many slots; the words of its first.
    Record(u64, [u64; 8]),
    /// No commit word; the other words.
    Uncommitted([u64; 8]),
    Damaged(&'static str),
}

impl RingImage {
    pub(super) fn new(slots: u32, checks: Checks) -> Self {
        Self {
            bytes: Vec::new(),
            have: 0,
            capacity: u64::from(slots),
            checks,
            at: layout::RING_OFFSET,
            limit: None,
            in_vain: Cell::new(0),
        }
    }

    /// Copies the image from `at` on. Memory is allocated for the file's actual bytes, not for the header's size.
    pub(super) fn load(&mut self, input: &Input, at: u64) -> Result<(), ReadError> {
        let length = input
            .own_length()
            .map_err(|source| input.error(at, source))?;
        let there = length.saturating_sub(at);
        let whole_slots = there.div_ceil(SLOT_BYTES as u64).min(self.capacity);
        self.bytes.resize(whole_slots as usize * SLOT_BYTES, 0);
        self.have = input.read(at, &mut self.bytes)?;
        self.at = at;
        self.in_vain.set(0);
        Ok(())
    }

    /// Reads slots of the window from `tail` on again that a running process may have changed meanwhile: those whose checksum
    /// does not match, since a read need not see words in order, and those without a commit before a committed record. One of
    /// these may have been committed before that record, and must not be missing beside it.
    pub(super) fn read_changed_again(&mut self, input: &Input, tail: u64) -> Result<(), ReadError> {
        let end = tail.saturating_add(self.capacity);
        // No more slots than the ring has: records of a damaged file may state any length.
        let (mut seq, mut left) = (tail, self.capacity);
        // Those before a record or a damaged slot, and those after the last one so far.
        let (mut uncommitted, mut after) = (Vec::new(), Vec::<Range<u64>>::new());
        while seq < end {
            if let Slot::Damaged(_) = self.slot(seq, end) {
                self.read_record_again(input, seq, end, &mut left)?;
            }
            let found = self.slot(seq, end);
            if !matches!(found, Slot::Uncommitted(_)) {
                uncommitted.append(&mut after);
            }
            seq += match found {
                Slot::Uncommitted(words) => {
                    match after.last_mut() {
                        Some(run) if run.end == seq => run.end = seq + 1,
                        _ => after.push(seq..seq + 1),
                    }
                    self.unfinished(&words)
                }
                Slot::Record(count, _) => count,
                Slot::Damaged(_) => 1,
            };
        }
        // Each slot after all that follow: a record is not missing if one is there that was committed after it.
        for seq in uncommitted.into_iter().rev().flat_map(Iterator::rev) {
            self.read_record_again(input, seq, end, &mut left)?;
        }
        Ok(())
    }

    /// Reads a slot again, and the others of the record that is committed there by now.
    fn read_record_again(
        &mut self,
        input: &Input,
        seq: u64,
        end: u64,
        left: &mut u64,
    ) -> Result<(), ReadError> {
        if *left == 0 {
            return Ok(());
        }
        self.read_again(input, seq)?;
        let words = self.words(seq);
        let count = match words[0] as u32 == checksum::tag(seq, self.checks.nonce) {
            true => slot::slots_of(&words).clamp(1, (end - seq).min(*left)),
            false => 1,
        };
        *left -= count;
        (1..count).try_for_each(|other| self.read_again(input, seq + other))
    }

    fn read_again(&mut self, input: &Input, seq: u64) -> Result<(), ReadError> {
        let (start, offset) = (self.index(seq) * SLOT_BYTES, self.offset(seq));
        if let Some(bytes) = self.bytes.get_mut(start..start + SLOT_BYTES) {
            input.read(offset, bytes)?;
        }
        Ok(())
    }

    /// Passes on the committed records from the cursor on, up to the first that is uncommitted or belongs to another
    /// position. Reads no more of the ring than that.
    pub(super) fn follow(
        &mut self,
        input: &Input,
        cursor: &mut Cursor<'_>,
    ) -> Result<(), ReadError> {
        (self.have, self.at) = (self.size(), layout::RING_OFFSET);
        self.in_vain.set(0);
        self.make_whole();
        let lap = cursor.expected.saturating_add(self.capacity);
        let (mut payload, mut loaded) = (Vec::new(), cursor.expected);
        while cursor.expected < lap {
            let seq = cursor.expected;
            if seq == loaded {
                loaded = self.load_slots(input, loaded)?;
            }
            let words = self.words(seq);
            let is_own = words[0] != 0 && words[0] as u32 == checksum::tag(seq, self.checks.nonce);
            let count = slot::slots_of(&words);
            // A definition may extend beyond the loaded slots.
            while is_own && count <= self.capacity && seq + count > loaded {
                loaded = self.load_slots(input, loaded)?;
            }
            let Slot::Record(count, words) = self.slot(seq, lap) else {
                break;
            };
            self.give(seq, &words, &mut payload, cursor);
            cursor.expected = seq + count;
        }
        cursor.ahead = cursor.ahead.max(cursor.expected);
        Ok(())
    }

    /// Resizes the image to the ring's size. The system allocates memory for slots as they are read. Most ranks of a
    /// job fill a small part of their rings between two reads, so zeros are not written.
    fn make_whole(&mut self) {
        match self.bytes.is_empty() {
            true => self.bytes = vec![0; self.size()],
            false => self.bytes.resize(self.size(), 0),
        }
    }

    /// Reads some slots from `seq` on; returns their end.
    fn load_slots(&mut self, input: &Input, seq: u64) -> Result<u64, ReadError> {
        let first = self.index(seq);
        let count = AT_ONCE.min(self.capacity - first as u64);
        let bytes = first * SLOT_BYTES..(first + count as usize) * SLOT_BYTES;
        input.read(self.offset(seq), &mut self.bytes[bytes])?;
        Ok(seq + count)
    }

    fn give(&self, seq: u64, words: &[u64; 8], payload: &mut Vec<u8>, cursor: &mut Cursor<'_>) {
        let (kind, offset) = (slot::kind_of(words), self.offset(seq));
        cursor.good(seq, offset);
        if EventKind(kind).is_event() {
            cursor.event(seq, &slot::event_from_words(words));
        } else {
            self.payload(seq, words, payload);
            cursor.definition(seq, DefKind(kind), payload, offset);
        }
    }

    /// The image of a journal that is older than its ring: nothing is known from `limit` on.
    pub(super) fn load_journal(
        &mut self,
        input: &Input,
        at: u64,
        limit: u64,
    ) -> Result<(), ReadError> {
        self.load(input, at)?;
        // Slots that were never written are missing.
        self.make_whole();
        self.have = self.size();
        self.limit = Some(limit);
        Ok(())
    }

    /// No image: pages have everything that is known, up to `limit`.
    pub(super) fn load_nothing(&mut self, limit: u64) {
        self.bytes = vec![0; self.size()];
        self.have = self.size();
        self.limit = Some(limit);
    }

    /// Bytes of the whole ring.
    fn size(&self) -> usize {
        self.capacity as usize * SLOT_BYTES
    }

    fn index(&self, seq: u64) -> usize {
        (seq & (self.capacity - 1)) as usize
    }

    fn offset(&self, seq: u64) -> u64 {
        self.at + (self.index(seq) * SLOT_BYTES) as u64
    }

    fn words(&self, seq: u64) -> [u64; 8] {
        let start = self.index(seq) * SLOT_BYTES;
        let mut words = [0; 8];
        let from = self.bytes.get(start..).unwrap_or_default();
        for (word, bytes) in words.iter_mut().zip(from.chunks_exact(8)) {
            let mut le = [0; 8];
            le.copy_from_slice(bytes);
            *word = u64::from_le_bytes(le);
        }
        words
    }

    fn slot(&self, seq: u64, end: u64) -> Slot {
        if self.index(seq) * SLOT_BYTES + SLOT_BYTES > self.have {
            return Slot::Damaged("the file ends before this slot");
        }
        let words = self.words(seq);
        if words[0] == 0 {
            return Slot::Uncommitted(words);
        }
        if words[0] as u32 != checksum::tag(seq, self.checks.nonce) {
            return Slot::Damaged("the slot holds no record of its own");
        }
        let count = slot::slots_of(&words);
        if count == 0 || count > end - seq {
            return Slot::Damaged("the record's length is impossible");
        }
        let in_vain = self.in_vain.get();
        if count > 1 && in_vain > IN_VAIN.saturating_mul(self.capacity) {
            return Slot::Damaged("the checks of too many records do not fit");
        }
        let others = (1..count).map(|n| self.words(seq + n));
        if self.checks.record(seq, &words, others) != words[0] {
            self.in_vain.set(in_vain.saturating_add(count));
            return Slot::Damaged("the record's check does not fit");
        }
        let is_event = EventKind(slot::kind_of(&words)).is_event();
        let fits = if is_event {
            1
        } else {
            slot::slots_for(slot::payload_bytes_of(&words))
        };
        if count == fits {
            Slot::Record(count, words)
        } else {
            Slot::Damaged("the record's length contradicts itself")
        }
    }

    /// The number of slots with the tag of the record that belongs there in the window from `base` on.
    fn matches(&self, base: u64) -> usize {
        (base..base.saturating_add(self.capacity))
            .filter(|&seq| {
                let commit = self.words(seq)[0];
                commit != 0 && commit as u32 == checksum::tag(seq, self.checks.nonce)
            })
            .count()
    }

    /// The sequence number at the start of the ring's window. Normally the end of the pages. If pages are missing, it
    /// is determined by the slots, or else by the tail.
    fn base(&self, expected: u64, dynamic: &Dynamic) -> u64 {
        let at_pages_end = self.matches(expected);
        let from_known = dynamic
            .known
            .map(|known| known.saturating_sub(self.capacity));
        [from_known, dynamic.tail]
            .into_iter()
            .flatten()
            .filter(|&base| base > expected)
            .map(|base| (self.matches(base), base))
            .max_by_key(|(matches, _)| *matches)
            .filter(|(matches, _)| *matches > at_pages_end)
            .map_or(expected, |(_, base)| base)
    }

    /// Passes on committed records, and adds the rest to the account. `dynamic` was read before the image was copied.
    pub(super) fn read(&self, cursor: &mut Cursor<'_>, dynamic: &Dynamic) {
        if self.have < self.size() {
            let end = self.at + self.have as u64;
            cursor.bad(end, || "the file ends within the ring".to_owned());
        }
        let base = self.base(cursor.expected, dynamic);
        // Nothing can be further than one lap past the tail. Slots before the pages' end may still hold records that
        // are in pages, if the process died before it cleared them.
        let tail = dynamic.tail.filter(|tail| *tail <= base + self.capacity);
        let start = tail.map_or(base, |tail| tail.min(base));
        let lap = start.saturating_add(self.capacity).max(base);
        let end = self.limit.map_or(lap, |limit| limit.min(lap));
        let committed = dynamic.committed();
        let mut seq = base;
        // Untouched slots are in flight if a record follows.
        let mut is_after_untouched = false;
        let mut payload = Vec::new();
        while seq < end {
            let offset = self.offset(seq);
            match self.slot(seq, lap) {
                Slot::Record(count, words) => {
                    if std::mem::take(&mut is_after_untouched) {
                        cursor.integrity.in_flight += 1;
                        cursor.pass(seq);
                    }
                    self.give(seq, &words, &mut payload, cursor);
                    seq += count;
                }
                Slot::Uncommitted(_) if seq < committed => {
                    is_after_untouched = false;
                    cursor.bad(offset, || "a record that was committed is gone".to_owned());
                    seq += 1;
                }
                Slot::Uncommitted(words) if words == [0; 8] => {
                    is_after_untouched = true;
                    seq += 1;
                }
                // After a clean exit, every started record is completed.
                Slot::Uncommitted(_) if matches!(dynamic.ended, Ok(Some(_))) => {
                    is_after_untouched = false;
                    cursor.bad(offset, || "a slot that should be empty is not".to_owned());
                    seq += 1;
                }
                Slot::Uncommitted(words) => {
                    let count = self.unfinished(&words);
                    cursor.integrity.in_flight += 1 + u64::from(is_after_untouched);
                    is_after_untouched = false;
                    seq += count;
                    cursor.pass(seq);
                }
                Slot::Damaged(what) => {
                    is_after_untouched = false;
                    cursor.bad(offset, || what.to_owned());
                    seq += 1;
                }
            }
        }
        if seq < committed && self.limit.is_none_or(|limit| seq < limit) {
            cursor.bad(self.at, || {
                "records that were committed are gone".to_owned()
            });
        }
        cursor.end(None);
    }

    /// The number of slots of an unfinished record: a definition stores it in its first slot before it writes the
    /// others.
    fn unfinished(&self, words: &[u64; 8]) -> u64 {
        let count = slot::slots_of(words);
        let is_definition = !EventKind(slot::kind_of(words)).is_event();
        let fits = is_definition && count == slot::slots_for(slot::payload_bytes_of(words));
        if fits && count <= self.capacity {
            count
        } else {
            1
        }
    }

    fn payload(&self, seq: u64, words: &[u64; 8], payload: &mut Vec<u8>) {
        payload.clear();
        for n in 1..slot::slots_of(words) {
            for word in self.words(seq + n) {
                payload.extend_from_slice(&word.to_le_bytes());
            }
        }
        payload.truncate(slot::payload_bytes_of(words) as usize);
    }
}

#[cfg(test)]
mod tests;

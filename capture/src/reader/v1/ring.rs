//! The records that had not reached a page: an image of the ring, and what is committed in it.

use super::super::ReadError;
use super::super::input::Input;
use super::cursor::Cursor;
use super::dynamic::Dynamic;
use crate::checksum::{self, Checks};
use crate::slot::{self, SLOT_BYTES};
use crate::{DefKind, EventKind, layout};

/// A reserved slot that nobody has touched is a thread caught between two instructions. So many side
/// by side are no threads, but a block of the file that was lost; before what a clean exit has found
/// committed, even one is. Slots of definitions, of which one has many, are told apart: the head says how
/// many there may be.
const UNTOUCHED_LIMIT: u64 = 3;

pub(super) struct RingImage {
    /// Whole slots, as many as the file has.
    bytes: Vec<u8>,
    /// How many of them the file had.
    have: usize,
    capacity: u64,
    checks: Checks,
}

/// What a slot looks like to the one who expects a certain record in it.
enum Slot {
    /// A committed record of that many slots; the words of its first.
    Record(u64, [u64; 8]),
    /// No commit word; the other words.
    Uncommitted([u64; 8]),
    Damaged(&'static str),
}

/// The ring's indexes as far as they can be believed.
struct Indexes {
    head: Option<u64>,
    tail: Option<u64>,
}

impl RingImage {
    pub(super) fn new(slots: u32, checks: Checks) -> Self {
        Self {
            bytes: Vec::new(),
            have: 0,
            capacity: u64::from(slots),
            checks,
        }
    }

    /// Takes the image. Memory is set aside for what the file has, not for what its header states.
    pub(super) fn load(&mut self, input: &Input) -> Result<(), ReadError> {
        let length = input
            .own_length()
            .map_err(|source| input.error(layout::RING_OFFSET, source))?;
        let there = length.saturating_sub(layout::RING_OFFSET);
        let whole_slots = there.div_ceil(SLOT_BYTES as u64).min(self.capacity);
        self.bytes.resize(whole_slots as usize * SLOT_BYTES, 0);
        self.have = input.read(layout::RING_OFFSET, &mut self.bytes)?;
        Ok(())
    }

    /// Bytes of the whole ring.
    fn size(&self) -> usize {
        self.capacity as usize * SLOT_BYTES
    }

    fn index(&self, seq: u64) -> usize {
        (seq & (self.capacity - 1)) as usize
    }

    fn offset(&self, seq: u64) -> u64 {
        layout::RING_OFFSET + (self.index(seq) * SLOT_BYTES) as u64
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
        let others = (1..count).map(|n| self.words(seq + n));
        if self.checks.record(seq, &words, others) != words[0] {
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

    /// How many slots hold the tag of the record that the window from `base` puts there.
    fn matches(&self, base: u64) -> usize {
        (base..base.saturating_add(self.capacity))
            .filter(|&seq| {
                let commit = self.words(seq)[0];
                commit != 0 && commit as u32 == checksum::tag(seq, self.checks.nonce)
            })
            .count()
    }

    /// Checks the indexes against each other and against where the pages ended.
    fn indexes(&self, cursor: &mut Cursor<'_>, dynamic: &Dynamic) -> Indexes {
        let Dynamic { head, tail, .. } = *dynamic;
        let expected = cursor.expected;
        // Pages hold only what had been reserved; what is reserved and has not left fits the ring.
        let is_possible = head.is_none_or(|head| {
            head >= expected && tail.is_none_or(|tail| tail <= head && head - tail <= self.capacity)
        });
        if is_possible {
            return Indexes { head, tail };
        }
        cursor.integrity.damaged(
            layout::dynamic::HEAD,
            format!("the ring's indexes contradict the pages, which end before {expected}"),
        );
        Indexes {
            head: None,
            tail: None,
        }
    }

    /// The sequence number where the ring's window starts. Normally where the pages end; elsewhere if
    /// pages are missing, and then the slots themselves tell, and the tail where they do not.
    fn base(&self, expected: u64, dynamic: &Dynamic) -> u64 {
        let at_pages_end = self.matches(expected);
        let from_head = dynamic.head.map(|head| head.saturating_sub(self.capacity));
        [from_head, dynamic.tail]
            .into_iter()
            .flatten()
            .filter(|&base| base > expected)
            .map(|base| (self.matches(base), base))
            .max_by_key(|(matches, _)| *matches)
            .filter(|(matches, _)| *matches > at_pages_end)
            .map_or(expected, |(_, base)| base)
    }

    /// Gives what is committed, and enters the rest into the account. `dynamic` was read before the
    /// image was taken: what was reserved since then is not unfinished but later. `head_after` was
    /// read after it.
    pub(super) fn read(&self, cursor: &mut Cursor<'_>, dynamic: &Dynamic, head_after: Option<u64>) {
        if self.have < self.size() {
            let end = layout::RING_OFFSET + self.have as u64;
            cursor.bad(end, || "the file ends within the ring".to_owned());
        }
        let indexes = self.indexes(cursor, dynamic);
        let base = self.base(cursor.expected, dynamic);
        // Nothing can lie further than one lap past the tail. Slots before the pages' end may still
        // hold records that are in pages: the process may have died before it had emptied them.
        let start = indexes.tail.map_or(base, |tail| tail.min(base));
        let end = start.saturating_add(self.capacity).max(base);
        let mut seq = base;
        let (mut untouched, mut defining) = (0, dynamic.defining);
        let committed = match dynamic.ended {
            Ok(Some(ended)) => ended.committed,
            _ => 0,
        };
        let mut payload = Vec::new();
        while seq < end {
            let offset = self.offset(seq);
            match self.slot(seq, end) {
                Slot::Record(count, words) => {
                    cursor.good(seq, offset);
                    if indexes.head.and(head_after).is_some_and(|head| seq >= head) {
                        cursor.integrity.damaged(
                            layout::dynamic::HEAD,
                            "a record lies past the ring's head: the head is damaged",
                        );
                    }
                    let kind = slot::kind_of(&words);
                    if EventKind(kind).is_event() {
                        cursor.event(seq, &slot::event_from_words(&words));
                    } else {
                        self.payload(seq, &words, &mut payload);
                        cursor.definition(seq, DefKind(kind), &payload, offset);
                    }
                    seq += count;
                    untouched = 0;
                }
                Slot::Uncommitted(words) if indexes.head.is_some_and(|head| seq < head) => {
                    let mut count = self.unfinished(&words);
                    if indexes.tail.is_some_and(|tail| seq < tail) {
                        cursor.bad(offset, || {
                            "records had left the ring, but no page has them".into()
                        });
                    } else {
                        cursor.integrity.in_flight += 1;
                        let blank = self.blank(seq, indexes.head.unwrap_or(end).min(end), defining);
                        untouched = match words == [0; 8] {
                            // A definition that nobody had begun to write, and its slots.
                            true if blank >= UNTOUCHED_LIMIT && seq >= committed => {
                                count = blank;
                                defining -= blank;
                                0
                            }
                            true => untouched + 1,
                            false => 0,
                        };
                        let limit = if seq < committed { 1 } else { UNTOUCHED_LIMIT };
                        if untouched == limit {
                            let what = "a run of records is blank: too long to be unfinished ones";
                            cursor.integrity.damaged(offset, what);
                        }
                        cursor.pass(seq + count);
                    }
                    seq += count;
                }
                // Reserved only after we had looked: a running process's later records start here.
                Slot::Uncommitted(_) if indexes.head.and(head_after).is_some_and(|h| seq < h) => {
                    break;
                }
                // Past the head, or nobody knows where that is.
                Slot::Uncommitted(words) => {
                    if words != [0; 8] {
                        cursor.bad(offset, || "a slot that should be empty is not".to_owned());
                    }
                    seq += 1;
                }
                Slot::Damaged(what) => {
                    cursor.bad(offset, || what.to_owned());
                    seq += 1;
                    untouched = 0;
                }
            }
        }
        cursor.end(indexes.head);
    }

    /// How many slots from `seq` on, and before `end`, nobody has touched; no more than `most`.
    fn blank(&self, seq: u64, end: u64, most: u64) -> u64 {
        let is_there = |seq: u64| (self.index(seq) + 1) * SLOT_BYTES <= self.bytes.len();
        let slots = (seq..end).take(most as usize);
        slots
            .take_while(|seq| is_there(*seq) && self.words(*seq) == [0; 8])
            .count() as u64
    }

    /// How many slots an unfinished record has: a definition states it in its first slot before it
    /// writes the others.
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

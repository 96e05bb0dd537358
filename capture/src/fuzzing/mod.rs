//! For the fuzz targets (fuzz/) and the property tests that mirror them: captures of arbitrary bytes with
//! valid checksums, so that the code after the checks is reached, and checks of the result of reading.
#![forbid(unsafe_code)]

mod bounded;
mod left_ring;

pub use bounded::{state_file, state_seed};
pub use left_ring::judge_left_ring;

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::Path;

use crate::checksum::Checks;
use crate::embedded::{MARK_BYTES, Part, page_nonce};
use crate::header::{RingAt, StaticHeader};
use crate::page::{self, Decoded, Decoder, HEADER_BYTES, Header};
use crate::slot::{self, SLOT_BYTES};
use crate::{Definition, Integrity, OpenError, Reader, Record, Seq, checksum, index, layout};

const NONCE: u64 = 0x5eed_0f00_d1ce_5eed;
const SLOTS: u32 = 64;
const COLUMNS: usize = 8;

/// Arbitrary bytes, consumed in order; zeros after the end.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }

    fn number(&mut self, bytes: usize) -> u64 {
        let taken = self.take(bytes).iter().rev();
        taken.fold(0, |number, byte| number << 8 | u64::from(*byte))
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The header of a capture that holds its ring of 64 slots, of a process that has ended.
fn static_header() -> StaticHeader {
    StaticHeader {
        nonce: NONCE,
        started_wall: 1,
        started_monotonic: 2,
        started_boottime: 3,
        pid: 4,
        parent_pid: 5,
        process_start_ticks: 6,
        boot_id: [7; 16],
        ring_slots: SLOTS,
        bounded: None,
        ring_at: RingAt::Capture,
    }
}

/// The head of a capture with an empty ring of 64 slots and this many bytes of pages.
fn head(next: u64, tail: u64, page_bytes: usize) -> Vec<u8> {
    head_of(&static_header(), next, tail, page_bytes as u64)
}

/// Everything before a capture's pages, with an empty ring.
fn head_of(header: &StaticHeader, next: u64, tail: u64, page_bytes: u64) -> Vec<u8> {
    let pages = header.pages_offset();
    let mut file = vec![0; pages as usize];
    let mut put = |offset: u64, bytes: &[u8]| {
        file[offset as usize..][..bytes.len()].copy_from_slice(bytes);
    };
    for offset in layout::STATIC_COPIES {
        put(offset, &header.encode());
    }
    for (offset, value) in [
        (layout::dynamic::KNOWN, next),
        (layout::dynamic::TAIL, tail),
        (layout::dynamic::PAGES_END, pages + page_bytes),
    ] {
        put(offset, &index::seal(value, NONCE).to_le_bytes());
    }
    file
}

/// Pages, as long as there are bytes. Of each: events, definitions and slots beyond theirs, one byte each
/// except the first (two); for each column u16 stored bytes and u24 raw bytes (0: the same); the columns.
fn pages(bytes: &mut Bytes<'_>, nonce: u64) -> (Vec<u8>, u64, u64) {
    pages_from(bytes, nonce, 0)
}

/// The same, whose first record has this number.
fn pages_from(bytes: &mut Bytes<'_>, nonce: u64, first: u64) -> (Vec<u8>, u64, u64) {
    let (mut out, mut next, mut definitions) = (Vec::new(), first, 0);
    while !bytes.is_empty() {
        let counts = [bytes.number(2) as u32, bytes.number(1) as u32];
        let end = next + u64::from(counts[0]) + bytes.number(1);
        let mut lengths = [(0, 0); COLUMNS];
        for length in &mut lengths {
            *length = (bytes.number(2) as usize, bytes.number(3) as u32);
        }
        let columns = lengths.map(|(stored, raw)| {
            let stored = bytes.take(stored);
            let raw = if raw == 0 { stored.len() as u32 } else { raw };
            (raw, stored)
        });
        out.extend_from_slice(&page::around(nonce, next..end, counts, &columns));
        next = end;
        definitions += u64::from(counts[1]);
    }
    (out, next, definitions)
}

fn word(bytes: &[u8], at: usize) -> u64 {
    Bytes(bytes.get(at..).unwrap_or_default()).number(8)
}

/// The input from which [`pages`] creates these pages.
fn seed_of_pages(mut pages: &[u8], nonce: u64) -> Vec<u8> {
    let mut out = Vec::new();
    let (Ok(mut decoder), mut decoded) = (Decoder::new(), Decoded::default()) else {
        return out;
    };
    while let Some((header, rest)) = pages.split_first_chunk::<HEADER_BYTES>()
        && let Ok(header) = Header::decode(header, nonce)
        && let Some((payload, rest)) = rest.split_at_checked(header.payload_bytes as usize)
        && decoder.decode(&header, payload, &mut decoded).is_ok()
    {
        pages = rest;
        let beyond = header.next - header.first - u64::from(header.events);
        out.extend_from_slice(&(header.events as u16).to_le_bytes());
        out.extend_from_slice(&[header.definitions as u8, beyond as u8]);
        for column in decoder.columns() {
            out.extend_from_slice(&(column.len() as u16).to_le_bytes());
            out.extend_from_slice(&[0; 3]);
        }
        out.extend(decoder.columns().iter().flatten());
    }
    out
}

/// The input from which [`page_file`] creates the pages of a whole capture.
pub fn page_seed(capture: &[u8]) -> Vec<u8> {
    let start = word(capture, 120) as usize;
    seed_of_pages(capture.get(start..).unwrap_or_default(), word(capture, 16))
}

/// The input from which [`names_file`] creates the names of a whole embedded capture.
pub fn names_seed(capture: &[u8]) -> Vec<u8> {
    let mark = capture.len().saturating_sub(MARK_BYTES);
    let start = word(capture, mark + 24) as usize + MARK_BYTES;
    let pages = capture.get(start..mark).unwrap_or_default();
    seed_of_pages(pages, page_nonce(word(capture, 16)))
}

/// The input from which [`ring_file`] creates the ring of a whole capture, or its journal, if it has 64 slots.
pub fn ring_seed(capture: &[u8]) -> Vec<u8> {
    let nonce = word(capture, 16);
    let at = |offset: u64| index::value(word(capture, offset as usize));
    let (next, tail) = (at(layout::dynamic::KNOWN), at(layout::dynamic::TAIL));
    let ring = match word(capture, 112) {
        0 => word(capture, layout::dynamic::JOURNAL as usize + 8),
        ring => ring,
    };
    let mut out = (tail as u16).to_le_bytes().to_vec();
    out.push(next.saturating_sub(tail) as u8);
    for seq in tail..tail + u64::from(SLOTS) {
        let start = ring as usize + (seq % u64::from(SLOTS)) as usize * SLOT_BYTES;
        let slot = capture.get(start..start + SLOT_BYTES).unwrap_or_default();
        out.push(match word(slot, 0) {
            0 if slot.iter().all(|byte| *byte == 0) => 3,
            0 => 1,
            commit if commit as u32 == checksum::tag(seq, nonce) => 0,
            _ => 2,
        });
        out.extend_from_slice(slot);
    }
    out
}

/// A capture with pages from these bytes.
pub fn page_file(bytes: &[u8]) -> Vec<u8> {
    let (pages, next, _) = pages(&mut Bytes(bytes), NONCE);
    let mut file = head(next, next, pages.len());
    file.extend_from_slice(&pages);
    file
}

/// A capture without pages whose ring comes from these bytes: u16 the tail, u8 how many slots are reserved;
/// for each slot u8 the action and the slot. 0: a record, whose commit word is made valid; 1: no record yet;
/// 2: unchanged; others: empty.
pub fn ring_file(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = Bytes(bytes);
    let tail = bytes.number(2);
    let mut file = head(tail + bytes.number(1) % (u64::from(SLOTS) + 1), tail, 0);
    fill_ring(&mut file, tail, &mut bytes);
    file
}

/// Fills the 64 slots at the offset of a ring, as [`ring_file`] describes.
fn fill_ring(file: &mut [u8], tail: u64, bytes: &mut Bytes<'_>) {
    let mut slots = [[0_u64; 8]; SLOTS as usize];
    let mut commits = Vec::new();
    let place = |seq: u64| (seq % u64::from(SLOTS)) as usize;
    for seq in tail..tail + u64::from(SLOTS) {
        let what = bytes.number(1);
        let mut words: [u64; 8] = std::array::from_fn(|_| bytes.number(8));
        match what {
            0 => commits.push(seq),
            1 => words[0] = 0,
            2 => {}
            _ => words = [0; 8],
        }
        slots[place(seq)] = words;
    }
    let checks = Checks::new(NONCE);
    // Backwards, because a record's checksum covers the slots after its first.
    for seq in commits.into_iter().rev() {
        let words = slots[place(seq)];
        let count = slot::slots_of(&words).min(u64::from(SLOTS));
        let others = (1..count).map(|n| slots[place(seq + n)]);
        slots[place(seq)][0] = checks.record(seq, &words, others);
    }
    let bytes = slots.iter().flatten().flat_map(|word| word.to_le_bytes());
    for (to, byte) in file[layout::RING_OFFSET as usize..].iter_mut().zip(bytes) {
        *to = byte;
    }
}

/// A capture without records whose embedded part comes from these bytes: pages as in [`page_file`].
pub fn names_file(bytes: &[u8]) -> Vec<u8> {
    let mut file = head(0, 0, 0);
    let (pages, _, symbols) = pages(&mut Bytes(bytes), page_nonce(NONCE));
    let start = file.len() as u64;
    file.extend_from_slice(&Part::opening(NONCE, start));
    file.extend_from_slice(&pages);
    let end = file.len() as u64;
    file.extend_from_slice(
        &Part {
            start,
            end,
            symbols,
        }
        .closing(NONCE),
    );
    file
}

/// Reads a capture and checks the invariants of every capture.
///
/// # Errors
/// The reader's error, if nothing can be read.
///
/// # Panics
/// If an invariant is violated: fuzzing searches for these.
pub fn judge(path: &Path) -> Result<Integrity, OpenError> {
    judged(path).map(|(integrity, _)| integrity)
}

/// [`judge`], and a hash of the records.
fn judged(path: &Path) -> Result<(Integrity, u64), OpenError> {
    let mut reader = Reader::open(path)?;
    let (mut records, mut symbols, mut last) = (0, 0, None);
    let mut given = DefaultHasher::new();
    reader.decode_on(0);
    let integrity = reader
        .read(&mut |record| {
            format!("{record:?}").hash(&mut given);
            let seq = match record {
                Record::Definition(Seq(0), Definition::Symbol { .. }) if last.is_none() => {
                    symbols += 1;
                    return;
                }
                Record::Event(seq, _) | Record::Definition(seq, _) => seq,
                Record::State(..) => {
                    assert!(last.is_none(), "the state comes first");
                    return;
                }
            };
            assert!(last < Some(seq), "{seq:?} after {last:?}");
            (last, records) = (Some(seq), records + 1);
        })
        .expect("the system does not refuse");
    let counted = integrity.events + integrity.definitions + integrity.symbols;
    // A state replaces the records before it.
    let most = integrity.bounded.map_or(0, |bounded| bounded.from.0);
    let replaced = counted.checked_sub(records + symbols);
    assert!(
        replaced.is_some_and(|replaced| replaced <= most),
        "{integrity:?}"
    );
    for damage in &integrity.damage {
        let (first, next) = (damage.first_missing, damage.next_good);
        assert!(next.is_none() || first < next, "{damage:?}");
    }
    let mut given_again = DefaultHasher::new();
    reader.decode_on(2);
    let again = reader
        .read(&mut |record| format!("{record:?}").hash(&mut given_again))
        .expect("the system does not refuse");
    assert_eq!(
        again, integrity,
        "read once more, with pages that other threads decoded"
    );
    assert_eq!(given_again.finish(), given.finish(), "other records");
    Ok((integrity, given.finish()))
}

/// Decodes a definition from any payload, and checks that a decoded definition is unchanged after encoding and
/// decoding.
///
/// # Panics
/// If it is not.
pub fn judge_payload(kind: crate::DefKind, payload: &[u8]) -> bool {
    let Some(definition) = Definition::from_payload(kind, payload) else {
        return false;
    };
    let again = Definition::from_payload(kind, &definition.payload());
    assert_eq!(again.as_ref(), Some(&definition));
    true
}

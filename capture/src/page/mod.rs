//! A page: a run of consecutive records, compressed by columns.
//!
//! Header, 144 bytes:
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 8 | magic: `GPUMPAGE` |
//! | 8 | 4 | bytes of this header: 144 |
//! | 12 | 4 | coding: 1 |
//! | 16 | 8 | the capture's nonce |
//! | 24 | 8 | first sequence number |
//! | 32 | 8 | sequence number that follows the last record |
//! | 40 | 4 | events |
//! | 44 | 4 | definitions |
//! | 48 | 8 | least time of an event; 0 without events |
//! | 56 | 8 | greatest time of an event; 0 without events |
//! | 64 | 4 | bytes of the payload, which follows the header |
//! | 68 | 4 | CRC32 of the payload |
//! | 72 | 64 | for each of the 8 columns, u32 bytes raw and u32 bytes stored |
//! | 136 | 4 | zero |
//! | 140 | 4 | CRC32 of bytes 0–139 |
//!
//! A column stored in fewer bytes than its raw bytes is a zstd frame. [`Column`] defines the contents of each.

mod decode;
mod encode;
mod varint;

pub(crate) use decode::{Decoded, Decoder, Part};
pub(crate) use encode::Builder;

/// First bytes of every page.
pub(crate) const MAGIC: [u8; 8] = *b"GPUMPAGE";
/// Bytes of a page's header.
pub(crate) const HEADER_BYTES: usize = 144;
const CODING: u32 = 1;
const COLUMNS: usize = 8;

/// The most slots of a page, unless one record alone has more.
pub(crate) const SLOTS: u64 = 32_768;
/// The maximum memory for a page; a header that states more is damaged.
const RAW_LIMIT: u64 = 16 << 20;
/// The most records of a page; a header that states more is damaged.
const RECORD_LIMIT: u32 = 65_536;

/// The columns, in the order in which they are stored. Numbers are LEB128; "signed" ones zigzag.
#[derive(Clone, Copy)]
#[repr(usize)]
enum Column {
    /// For each definition: slots since the end of the one before (or the page's start), u8 kind,
    /// payload's length, payload.
    Definitions = 0,
    /// The distinct sites in the order of their first event: u8 kind (and 128 where a placement follows), u8 level, u8
    /// device, u8 placement if that is not 0, then the signed differences from the site before of API, flags, thread, Python stack, native stack.
    Sites = 1,
    /// For each event its site's number: one byte if there are at most 256 sites; else first all low
    /// bytes and then all high bytes.
    SiteNumbers = 2,
    /// u8 shift; then the distinct pointers, ascending: each one's difference from the one before,
    /// shifted right.
    Pointers = 3,
    /// For each event its pointer's number, as `SiteNumbers`.
    PointerNumbers = 4,
    /// For each event one byte: 0 the usual guess was right, 1 the other guess was, 2 neither; and 3 more if the slack
    /// differs from the last one of the site (initially 0). Then, for each event that differs from the guess, the
    /// bytes, and 1 + the slack (0: unknown). A guess is the bytes of the last earlier event in the page with the same
    /// pointer, or with the same site (initially 0). The usual guess is by pointer for `FREE` and `CANCEL`, by site for
    /// other kinds.
    Bytes = 5,
    /// For each event the signed difference of `aux` from the last event of the same level.
    Aux = 6,
    /// u8 shift; then for each event the signed difference of its time from the event before,
    /// shifted right.
    Times = 7,
}

/// A page's header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) nonce: u64,
    pub(crate) first: u64,
    pub(crate) next: u64,
    pub(crate) events: u32,
    pub(crate) definitions: u32,
    pub(crate) least_time: u64,
    pub(crate) greatest_time: u64,
    pub(crate) payload_bytes: u32,
    payload_crc: u32,
    /// Raw and stored bytes of each column.
    columns: [(u32, u32); COLUMNS],
}

impl Header {
    fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut out = Vec::with_capacity(HEADER_BYTES);
        out.extend_from_slice(&MAGIC);
        for word in [HEADER_BYTES as u32, CODING] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        for word in [self.nonce, self.first, self.next] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        for word in [self.events, self.definitions] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        for word in [self.least_time, self.greatest_time] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        for word in [self.payload_bytes, self.payload_crc] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        for (raw, stored) in self.columns {
            out.extend_from_slice(&raw.to_le_bytes());
            out.extend_from_slice(&stored.to_le_bytes());
        }
        out.extend_from_slice(&[0; 4]);
        let crc = crc32fast::hash(&out);
        out.extend_from_slice(&crc.to_le_bytes());
        let mut header = [0; HEADER_BYTES];
        header.copy_from_slice(&out);
        header
    }

    /// Whether this payload matches the header.
    pub(crate) fn fits(&self, payload: &[u8]) -> bool {
        payload.len() == self.payload_bytes as usize && crc32fast::hash(payload) == self.payload_crc
    }

    /// Decodes a header; `Err` is the mismatch.
    pub(crate) fn decode(bytes: &[u8; HEADER_BYTES], nonce: u64) -> Result<Self, &'static str> {
        let u32_at = |offset: usize| {
            let mut le = [0; 4];
            le.copy_from_slice(&bytes[offset..offset + 4]);
            u32::from_le_bytes(le)
        };
        let u64_at =
            |offset: usize| u64::from(u32_at(offset)) | u64::from(u32_at(offset + 4)) << 32;
        if bytes[..8] != MAGIC {
            return Err("no page starts here");
        }
        if u32_at(HEADER_BYTES - 4) != crc32fast::hash(&bytes[..HEADER_BYTES - 4]) {
            return Err("the page's header is damaged");
        }
        if u64_at(16) != nonce {
            return Err("the page belongs to another capture");
        }
        if (u32_at(8), u32_at(12)) != (HEADER_BYTES as u32, CODING) {
            return Err("the page is coded in an unknown way");
        }
        let mut columns = [(0, 0); COLUMNS];
        for (n, column) in columns.iter_mut().enumerate() {
            *column = (u32_at(72 + 8 * n), u32_at(76 + 8 * n));
        }
        let header = Self {
            nonce,
            first: u64_at(24),
            next: u64_at(32),
            events: u32_at(40),
            definitions: u32_at(44),
            least_time: u64_at(48),
            greatest_time: u64_at(56),
            payload_bytes: u32_at(64),
            payload_crc: u32_at(68),
            columns,
        };
        let stored: u64 = columns.iter().map(|(_, stored)| u64::from(*stored)).sum();
        let raw: u64 = columns.iter().map(|(raw, _)| u64::from(*raw)).sum();
        let fits = stored == u64::from(header.payload_bytes)
            && raw <= RAW_LIMIT
            && columns.iter().all(|(raw, stored)| stored <= raw)
            && header.events <= RECORD_LIMIT
            && header.definitions <= RECORD_LIMIT
            && header.first < header.next;
        if fits {
            Ok(header)
        } else {
            Err("the page's header contradicts itself")
        }
    }
}

/// A page with valid checksums around arbitrary columns: each column's stated number of raw bytes, and its stored
/// bytes.
pub(crate) fn around(
    nonce: u64,
    records: core::ops::Range<u64>,
    [events, definitions]: [u32; 2],
    columns: &[(u32, &[u8])],
) -> Vec<u8> {
    let payload: Vec<u8> = columns
        .iter()
        .flat_map(|(_, stored)| *stored)
        .copied()
        .collect();
    let mut header = Header {
        nonce,
        first: records.start,
        next: records.end,
        events,
        definitions,
        payload_bytes: payload.len() as u32,
        payload_crc: crc32fast::hash(&payload),
        ..Header::default()
    };
    for (to, (raw, stored)) in header.columns.iter_mut().zip(columns) {
        *to = (*raw, stored.len() as u32);
    }
    let mut page = header.encode().to_vec();
    page.extend_from_slice(&payload);
    page
}

/// Distinguishes one operation at one place in the program from others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Site {
    kind: u8,
    level: u8,
    device: u8,
    placement: u8,
    api: u16,
    flags: u16,
    thread: u32,
    py_stack: u32,
    native_stack: u32,
}

impl Site {
    /// The fields that are coded as differences.
    fn numbers(&self) -> [u32; 5] {
        [
            u32::from(self.api),
            u32::from(self.flags),
            self.thread,
            self.py_stack,
            self.native_stack,
        ]
    }
}

#[cfg(test)]
mod tests;

//! Builds pages. Runs in the drain's thread only.

use std::hash::Hash;

use rustc_hash::FxHashMap;
use zstd::zstd_safe::{self, CCtx, CParameter};

use super::varint::{put, put_difference};
use super::{COLUMNS, Column, HEADER_BYTES, Header, Site};
use crate::slot::slots_for;
use crate::{DefKind, Event, EventKind};

/// Columns shorter than this are not compressed.
const TOO_SHORT_TO_COMPRESS: usize = 32;

/// Collects consecutive records and encodes them as a page. Its buffers are reused for the next
/// page.
pub(crate) struct Builder {
    header: Header,
    sites: Dictionary<Site>,
    pointers: Dictionary<u64>,
    events: Vec<Row>,
    definitions: Vec<u8>,
    /// Where the last definition ended.
    definitions_end: u64,
    columns: [Vec<u8>; COLUMNS],
    /// None if there was no memory for one: columns are then stored as they are.
    compressor: Option<CCtx<'static>>,
    page: Vec<u8>,
}

/// The fields of an event that are not in its site.
struct Row {
    site: u32,
    pointer: u32,
    bytes: u64,
    slack: u32,
    aux: u64,
    time: u64,
}

/// Distinct values in the order of their first use.
struct Dictionary<T> {
    numbers: FxHashMap<T, u32>,
    values: Vec<T>,
}

impl<T: Copy + Eq + Hash> Dictionary<T> {
    fn new() -> Self {
        Self {
            numbers: FxHashMap::default(),
            values: Vec::new(),
        }
    }

    fn number(&mut self, value: T) -> u32 {
        *self.numbers.entry(value).or_insert_with(|| {
            self.values.push(value);
            self.values.len() as u32 - 1
        })
    }

    fn clear(&mut self) {
        self.numbers.clear();
        self.values.clear();
    }
}

impl Builder {
    pub(crate) fn new(nonce: u64) -> Self {
        let mut compressor = CCtx::try_create();
        if let Some(compressor) = &mut compressor {
            // Fails for unknown parameters only.
            let _ = compressor.set_parameter(CParameter::CompressionLevel(1));
        }
        Self {
            header: Header {
                nonce,
                ..Header::default()
            },
            sites: Dictionary::new(),
            pointers: Dictionary::new(),
            events: Vec::new(),
            definitions: Vec::new(),
            definitions_end: 0,
            columns: Default::default(),
            compressor,
            page: Vec::new(),
        }
    }

    /// Starts a page whose first record is `first`.
    pub(crate) fn start(&mut self, first: u64) {
        let nonce = self.header.nonce;
        self.header = Header {
            nonce,
            first,
            next: first,
            ..Header::default()
        };
        self.sites.clear();
        self.pointers.clear();
        self.events.clear();
        self.definitions.clear();
        self.definitions_end = first;
    }

    /// The sequence number that the next record must have.
    pub(crate) fn next(&self) -> u64 {
        self.header.next
    }

    /// Whether no record was added since [`Builder::start`].
    pub(crate) fn is_empty(&self) -> bool {
        self.header.next == self.header.first
    }

    /// Adds the event at [`Builder::next`].
    pub(crate) fn event(&mut self, event: &Event) {
        let header = &mut self.header;
        let time = event.time.0;
        if header.events == 0 {
            (header.least_time, header.greatest_time) = (time, time);
        }
        header.least_time = header.least_time.min(time);
        header.greatest_time = header.greatest_time.max(time);
        header.events += 1;
        header.next += 1;
        let site = self.sites.number(Site {
            kind: event.kind.0,
            level: event.level.0,
            device: event.device.0,
            placement: event.placement.0,
            api: event.api.0,
            flags: event.flags.0,
            thread: event.thread.0,
            py_stack: event.py_stack.0,
            native_stack: event.native_stack.0,
        });
        let pointer = self.pointers.number(event.ptr);
        self.events.push(Row {
            site,
            pointer,
            bytes: event.bytes,
            slack: event.slack,
            aux: event.aux,
            time,
        });
    }

    /// Adds the definition at [`Builder::next`].
    pub(crate) fn definition(&mut self, kind: DefKind, payload: &[u8]) {
        put(
            &mut self.definitions,
            self.header.next - self.definitions_end,
        );
        self.definitions.push(kind.0);
        put(&mut self.definitions, payload.len() as u64);
        self.definitions.extend_from_slice(payload);
        self.header.definitions += 1;
        self.header.next += slots_for(payload.len() as u64);
        self.definitions_end = self.header.next;
    }

    /// The page's bytes.
    pub(crate) fn finish(&mut self) -> &[u8] {
        for column in &mut self.columns {
            column.clear();
        }
        self.write_sites();
        self.write_pointers();
        self.write_bytes();
        self.write_aux();
        self.write_times();
        core::mem::swap(
            &mut self.columns[Column::Definitions as usize],
            &mut self.definitions,
        );
        self.page.clear();
        self.page.resize(HEADER_BYTES, 0);
        for (column, lengths) in self.columns.iter().zip(&mut self.header.columns) {
            let start = self.page.len();
            let mut stored = column.len();
            if column.len() >= TOO_SHORT_TO_COMPRESS
                && let Some(compressor) = &mut self.compressor
            {
                self.page
                    .resize(start + zstd_safe::compress_bound(column.len()), 0);
                let room = &mut self.page[start..];
                // Without memory for its work, the column is stored as it is.
                stored = compressor.compress2(room, column).unwrap_or(stored);
            }
            self.page.truncate(start + stored);
            if stored >= column.len() {
                self.page.truncate(start);
                self.page.extend_from_slice(column);
                stored = column.len();
            }
            *lengths = (column.len() as u32, stored as u32);
        }
        let payload = &self.page[HEADER_BYTES..];
        self.header.payload_bytes = payload.len() as u32;
        self.header.payload_crc = crc32fast::hash(payload);
        let header = self.header.encode();
        self.page[..HEADER_BYTES].copy_from_slice(&header);
        &self.page
    }

    fn write_sites(&mut self) {
        let out = &mut self.columns[Column::Sites as usize];
        let mut before = Site::default();
        for site in &self.sites.values {
            let placed = u8::from(site.placement != 0) << 7;
            out.extend_from_slice(&[site.kind | placed, site.level, site.device]);
            if site.placement != 0 {
                out.push(site.placement);
            }
            for (number, from) in site.numbers().into_iter().zip(before.numbers()) {
                put_difference(out, u64::from(number), u64::from(from));
            }
            before = *site;
        }
        let numbers = self.events.iter().map(|event| event.site);
        let out = &mut self.columns[Column::SiteNumbers as usize];
        write_numbers(out, numbers, self.sites.values.len());
    }

    fn write_pointers(&mut self) {
        // They are numbered in order of first use up to here, and in ascending order after this.
        let values = &self.pointers.values;
        let mut ascending: Vec<u32> = (0..values.len() as u32).collect();
        ascending.sort_unstable_by_key(|number| values[*number as usize]);
        let mut rank = vec![0; values.len()];
        for (new, old) in ascending.iter().enumerate() {
            rank[*old as usize] = new as u32;
        }
        for event in &mut self.events {
            event.pointer = rank[event.pointer as usize];
        }
        let all_bits = values.iter().fold(0, |bits, value| bits | value);
        let shift = shift_of(all_bits);
        let out = &mut self.columns[Column::Pointers as usize];
        out.push(shift);
        let mut before = 0;
        for number in ascending {
            let value = values[number as usize];
            put(out, (value - before) >> shift);
            before = value;
        }
        let numbers = self.events.iter().map(|event| event.pointer);
        let out = &mut self.columns[Column::PointerNumbers as usize];
        write_numbers(out, numbers, values.len());
    }

    fn write_bytes(&mut self) {
        let out = &mut self.columns[Column::Bytes as usize];
        let mut of_site = vec![0; self.sites.values.len()];
        let mut slack_of_site = vec![0; self.sites.values.len()];
        let mut of_pointer = vec![0; self.pointers.values.len()];
        let mut explicit = Vec::new();
        for event in &self.events {
            let (site, pointer) = (event.site as usize, event.pointer as usize);
            let (mut usual, mut other) = (of_site[site], of_pointer[pointer]);
            if guesses_by_pointer(self.sites.values[site].kind) {
                core::mem::swap(&mut usual, &mut other);
            }
            let guess = match event.bytes {
                bytes if bytes == usual => 0,
                bytes if bytes == other => 1,
                bytes => {
                    put(&mut explicit, bytes);
                    2
                }
            };
            let slack = core::mem::replace(&mut slack_of_site[site], event.slack);
            if slack == event.slack {
                out.push(guess);
            } else {
                out.push(guess + OTHER_SLACK);
                put(&mut explicit, u64::from(event.slack.wrapping_add(1)));
            }
            of_site[site] = event.bytes;
            of_pointer[pointer] = event.bytes;
        }
        out.extend_from_slice(&explicit);
    }

    fn write_aux(&mut self) {
        let out = &mut self.columns[Column::Aux as usize];
        let mut before = [0; 256];
        for event in &self.events {
            let level = self.sites.values[event.site as usize].level;
            put_difference(out, event.aux, before[usize::from(level)]);
            before[usize::from(level)] = event.aux;
        }
    }

    fn write_times(&mut self) {
        let out = &mut self.columns[Column::Times as usize];
        let all_bits = self.events.iter().fold(0, |bits, event| bits | event.time);
        let shift = shift_of(all_bits);
        out.push(shift);
        let mut before = 0;
        for event in &self.events {
            put_difference(out, event.time >> shift, before);
            before = event.time >> shift;
        }
    }
}

/// Added to the code of the right guess of the bytes, if the slack follows.
pub(super) const OTHER_SLACK: u8 = 3;

/// Whether an event of that kind most likely has the bytes of the last one with its pointer.
#[inline]
pub(super) fn guesses_by_pointer(kind: u8) -> bool {
    [EventKind::FREE.0, EventKind::CANCEL.0].contains(&kind)
}

/// How many low bits no value uses.
fn shift_of(all_bits: u64) -> u8 {
    if all_bits == 0 {
        0
    } else {
        all_bits.trailing_zeros() as u8
    }
}

/// Numbers below `count` in one byte each, or in two planes of bytes.
fn write_numbers(out: &mut Vec<u8>, numbers: impl Iterator<Item = u32> + Clone, count: usize) {
    out.extend(numbers.clone().map(|number| number as u8));
    if count > 256 {
        out.extend(numbers.map(|number| (number >> 8) as u8));
    }
}

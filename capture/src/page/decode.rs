//! Decodes pages. Nothing is trusted: a page with valid checksums may still be forged.
#![forbid(unsafe_code)]

use std::io;

use super::encode::{OTHER_SLACK, guesses_by_pointer};
use super::varint::{take, take_byte, take_difference};
use super::{COLUMNS, Column, Header, Site};
use crate::slot::slots_for;
use crate::{
    ApiId, DefKind, DeviceOrdinal, Event, EventFlags, EventKind, Level, Nanos, PlacementId,
    StackId, ThreadId,
};

/// The part of a page to decode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// All records.
    Records,
    /// Definitions, and one event for each site, with zeros for the time, address, bytes, slack and `aux`.
    Sites,
    /// Definitions only.
    Definitions,
}

impl Part {
    /// The number of columns that it needs, from the first on.
    fn columns(self) -> usize {
        match self {
            Self::Records => COLUMNS,
            Self::Sites => Column::Sites as usize + 1,
            Self::Definitions => Column::Definitions as usize + 1,
        }
    }
}

/// Decodes pages one after the other, reusing its buffers.
pub(crate) struct Decoder {
    decompressor: zstd::bulk::Decompressor<'static>,
    columns: [Vec<u8>; COLUMNS],
}

/// A page's records.
#[derive(Default)]
pub(crate) struct Decoded {
    /// In order.
    pub(crate) events: Vec<Event>,
    /// Of each distinct site an event, where they are decoded instead of events.
    pub(crate) sites: Vec<Event>,
    /// In order: sequence number, kind, and where in `payloads` the payload is.
    pub(crate) definitions: Vec<(u64, DefKind, core::ops::Range<usize>)>,
    pub(crate) payloads: Vec<u8>,
}

impl Decoded {
    /// Passes the records on in order: an event, or a definition's kind and payload.
    pub(crate) fn each(
        &self,
        header: &Header,
        mut sink: impl FnMut(u64, Result<&Event, (DefKind, &[u8])>),
    ) {
        let mut seq = header.first;
        let mut events = self.events.iter();
        for (start, kind, payload) in &self.definitions {
            while seq < *start
                && let Some(event) = events.next()
            {
                sink(seq, Ok(event));
                seq += 1;
            }
            let payload = self.payloads.get(payload.clone()).unwrap_or_default();
            sink(*start, Err((*kind, payload)));
            seq = start + slots_for(payload.len() as u64);
        }
        for event in events {
            sink(seq, Ok(event));
            seq += 1;
        }
    }
}

impl Decoder {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            decompressor: zstd::bulk::Decompressor::new()?,
            columns: Default::default(),
        })
    }

    /// Decodes the payload of the page with that header into `to`; `Err` is the mismatch.
    pub(crate) fn decode(
        &mut self,
        header: &Header,
        payload: &[u8],
        to: &mut Decoded,
    ) -> Result<(), &'static str> {
        self.decode_part(Part::Records, header, payload, to)
    }

    /// The same of a part of the page. What is not decoded is not looked at.
    pub(crate) fn decode_part(
        &mut self,
        part: Part,
        header: &Header,
        payload: &[u8],
        to: &mut Decoded,
    ) -> Result<(), &'static str> {
        to.events.clear();
        to.sites.clear();
        to.definitions.clear();
        if crc32fast::hash(payload) != header.payload_crc {
            return Err("the page's content is damaged");
        }
        let mut rest = payload;
        let columns = self.columns.iter_mut().zip(header.columns);
        for (column, (raw, stored)) in columns.take(part.columns()) {
            let (bytes, after) = rest
                .split_at_checked(stored as usize)
                .ok_or("a column is cut off")?;
            rest = after;
            column.clear();
            if raw == stored {
                column.extend_from_slice(bytes);
                continue;
            }
            // Bounded by the header's limits: at most 16 MiB for all columns.
            column.resize(raw as usize, 0);
            let count = self
                .decompressor
                .decompress_to_buffer(bytes, &mut column[..]);
            if !count.is_ok_and(|count| count == raw as usize) {
                return Err("a column cannot be decompressed");
            }
        }
        self.definitions(header, to)
            .ok_or("the page's definitions make no sense")?;
        let events = match part {
            Part::Records => self.events(header, to),
            Part::Sites => self.sites(header.events as usize).map(|sites| {
                to.sites.extend(sites.into_iter().map(|(site, _)| site));
            }),
            Part::Definitions => Some(()),
        };
        events.ok_or("the page's events make no sense")
    }

    /// The columns of the last decoded page, decompressed.
    pub(crate) fn columns(&self) -> &[Vec<u8>] {
        &self.columns
    }

    fn column(&self, column: Column) -> &[u8] {
        &self.columns[column as usize]
    }

    fn definitions(&self, header: &Header, to: &mut Decoded) -> Option<()> {
        let mut from = self.column(Column::Definitions);
        let column = from;
        let mut seq = header.first;
        let mut slots = 0;
        for _ in 0..header.definitions {
            seq = seq.checked_add(take(&mut from)?)?;
            let kind = DefKind(take_byte(&mut from)?);
            let length = usize::try_from(take(&mut from)?).ok()?;
            let start = column.len() - from.len();
            from = from.get(length..)?;
            to.definitions.push((seq, kind, start..start + length));
            let count = slots_for(length as u64);
            seq = seq.checked_add(count)?;
            slots += count;
        }
        // Events use all slots that are not used by definitions.
        let is_whole = header.next - header.first == slots + u64::from(header.events);
        to.payloads.clear();
        to.payloads.extend_from_slice(column);
        (from.is_empty() && seq <= header.next && is_whole).then_some(())
    }

    /// The sites, with 0 for the bytes of each site's last event. At most `count`, the number of
    /// events.
    fn sites(&self, count: usize) -> Option<Vec<(Event, u64)>> {
        let mut from = self.column(Column::Sites);
        let mut sites = Vec::new();
        let mut before = Site::default();
        while !from.is_empty() {
            if sites.len() == count {
                return None;
            }
            let first = take_byte(&mut from)?;
            let kind = first & 127;
            let level = take_byte(&mut from)?;
            let device = take_byte(&mut from)?;
            let placement = match first == kind {
                true => 0,
                false => take_byte(&mut from)?,
            };
            let mut numbers = before.numbers();
            for number in &mut numbers {
                let value = u64::from(*number).wrapping_add(take_difference(&mut from)?);
                *number = u32::try_from(value).ok()?;
            }
            let [api, flags, thread, py_stack, native_stack] = numbers;
            let (api, flags) = (u16::try_from(api).ok()?, u16::try_from(flags).ok()?);
            before = Site {
                kind,
                level,
                device,
                placement,
                api,
                flags,
                thread,
                py_stack,
                native_stack,
            };
            let site = Event {
                kind: EventKind(kind),
                level: Level(level),
                device: DeviceOrdinal(device),
                placement: PlacementId(placement),
                api: ApiId(api),
                flags: EventFlags(flags),
                thread: ThreadId(thread),
                py_stack: StackId(py_stack),
                native_stack: StackId(native_stack),
                ..Event::default()
            };
            sites.push((site, 0));
        }
        Some(sites)
    }

    /// The pointers, in the same way.
    fn pointers(&self, count: usize) -> Option<Vec<(u64, u64)>> {
        let mut from = self.column(Column::Pointers);
        let shift = take_shift(&mut from)?;
        let mut pointers = Vec::new();
        let mut before = 0_u64;
        while !from.is_empty() {
            if pointers.len() == count {
                return None;
            }
            before = before.checked_add(shifted(take(&mut from)?, shift)?)?;
            pointers.push((before, 0));
        }
        Some(pointers)
    }

    fn events(&self, header: &Header, to: &mut Decoded) -> Option<()> {
        let count = header.events as usize;
        let (mut sites, mut pointers) = (self.sites(count)?, self.pointers(count)?);
        let site_numbers = Numbers::new(self.column(Column::SiteNumbers), count, sites.len())?;
        let pointer_numbers =
            Numbers::new(self.column(Column::PointerNumbers), count, pointers.len())?;
        let (guesses, mut explicit) = self.column(Column::Bytes).split_at_checked(count)?;
        let mut aux = self.column(Column::Aux);
        let mut aux_before = [0_u64; 256];
        let mut times = self.column(Column::Times);
        let shift = take_shift(&mut times)?;
        let mut time = 0_u64;
        to.events.reserve(count);
        for (n, guess) in guesses.iter().enumerate() {
            let (site, of_site) = sites.get_mut(site_numbers.get(n)?)?;
            let (pointer, of_pointer) = pointers.get_mut(pointer_numbers.get(n)?)?;
            let by_pointer = guesses_by_pointer(site.kind.0);
            let (guess, other_slack) = match guess.checked_sub(OTHER_SLACK) {
                Some(guess) => (guess, true),
                None => (*guess, false),
            };
            let bytes = match (guess, by_pointer) {
                (0, false) | (1, true) => *of_site,
                (0, true) | (1, false) => *of_pointer,
                (2, _) => take(&mut explicit)?,
                _ => return None,
            };
            (*of_site, *of_pointer) = (bytes, bytes);
            if other_slack {
                let known = u32::try_from(take(&mut explicit)?).ok()?;
                site.slack = known.wrapping_sub(1);
            }
            let aux_before = &mut aux_before[usize::from(site.level.0)];
            *aux_before = aux_before.wrapping_add(take_difference(&mut aux)?);
            time = time.wrapping_add(take_difference(&mut times)?);
            to.events.push(Event {
                time: Nanos(shifted(time, shift)?),
                ptr: *pointer,
                bytes,
                aux: *aux_before,
                ..*site
            });
        }
        (explicit.is_empty() && aux.is_empty() && times.is_empty()).then_some(())
    }
}

fn take_shift(from: &mut &[u8]) -> Option<u8> {
    take_byte(from).filter(|shift| *shift < 64)
}

/// `value << shift`, if no bit is lost.
fn shifted(value: u64, shift: u8) -> Option<u64> {
    let result = value << shift;
    (result >> shift == value).then_some(result)
}

/// Numbers stored in one byte each, or in two planes of bytes.
struct Numbers<'a> {
    low: &'a [u8],
    high: &'a [u8],
}

impl<'a> Numbers<'a> {
    fn new(column: &'a [u8], count: usize, values: usize) -> Option<Self> {
        let (low, high) = column.split_at_checked(count)?;
        let wanted = if values > 256 { count } else { 0 };
        (high.len() == wanted).then_some(Self { low, high })
    }

    #[inline]
    fn get(&self, n: usize) -> Option<usize> {
        let low = usize::from(*self.low.get(n)?);
        Some(
            self.high
                .get(n)
                .map_or(low, |high| low | usize::from(*high) << 8),
        )
    }
}

//! A bounded capture: a state, the later pages of the log, and the ring.

use super::capture::{Capture, LIVE_ATTEMPTS};
use super::cursor::Cursor;
use super::dynamic::Dynamic;
use super::embedded;
use super::error::ReadError;
use super::input::Input;
use super::integrity::Bounded;
use super::pages::IN_VAIN;
use super::progress::Progress;
use super::ring_image::RingImage;
use crate::bounded_layout::{BoundedLayout, STATE_HEADER_BYTES, StateHeader};
use crate::page::{Decoded, Decoder, HEADER_BYTES, Header, MAGIC};
use crate::{Seq, layout};

/// The areas at one point in time.
struct Snapshot {
    /// The states that are complete.
    states: [Option<(StateHeader, Vec<u8>)>; 2],
    log: Vec<u8>,
    /// The offsets of complete pages in the log, with their headers.
    pages: Vec<(usize, Header)>,
}

/// The first record that is passed on itself, and the end of the records without a gap.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Choice {
    from: u64,
    reach: u64,
}

impl Snapshot {
    fn take(
        input: &Input,
        bounded: BoundedLayout,
        start: u64,
        nonce: u64,
        progress: &Progress,
    ) -> Result<Self, ReadError> {
        let mut states = [None, None];
        for (which, state) in states.iter_mut().enumerate() {
            let offset = bounded.state_offset(start, which);
            let mut header = [0; STATE_HEADER_BYTES];
            input.read(offset, &mut header)?;
            let limit = bounded.state_limit() as u64;
            if let Some(header) = StateHeader::decode(&header, nonce, limit) {
                let body = read(input, offset + STATE_HEADER_BYTES as u64, header.bytes)?;
                let whole =
                    body.len() as u64 == header.bytes && crc32fast::hash(&body) == header.crc;
                *state = whole.then_some((header, body));
            }
        }
        let start = bounded.log_offset(start);
        progress.set(start);
        let log = read(input, start, bounded.log)?;
        let mut snapshot = Self {
            states,
            log,
            pages: Vec::new(),
        };
        snapshot.find_pages(nonce);
        Ok(snapshot)
    }

    /// Pages are adjacent, except for gaps: one at the log's end, and space that was never written.
    fn find_pages(&mut self, nonce: u64) {
        let mut at = 0;
        let length = self.log.len() as u64;
        let most = IN_VAIN.0.saturating_add(length.saturating_mul(IN_VAIN.1));
        let mut in_vain = 0;
        while let Some(header) = self.log.get(at..at + HEADER_BYTES) {
            if in_vain > most {
                // What follows is missing.
                break;
            }
            let mut bytes = [0; HEADER_BYTES];
            bytes.copy_from_slice(header);
            let page = Header::decode(&bytes, nonce).ok();
            let whole = page.filter(|page| page.fits(self.payload(at, page)));
            at += match whole {
                Some(page) => {
                    self.pages.push((at, page));
                    HEADER_BYTES + page.payload_bytes as usize
                }
                None => {
                    in_vain += page.map_or(0, |page| u64::from(page.payload_bytes));
                    1 + self.log[at + 1..]
                        .windows(MAGIC.len())
                        .position(|bytes| bytes == MAGIC)
                        .unwrap_or(self.log.len())
                }
            };
        }
        self.pages.sort_by_key(|(_, page)| (page.first, page.next));
    }

    fn payload(&self, at: usize, page: &Header) -> &[u8] {
        let start = at + HEADER_BYTES;
        let end = start + page.payload_bytes as usize;
        self.log.get(start..end).unwrap_or_default()
    }

    /// The state to start with: among those after which the most records are available the oldest, because the records
    /// after it are history. 0 for no state.
    fn choose(&self) -> Choice {
        let states = self.states.iter().flatten().map(|(header, _)| header.seq);
        let choices = std::iter::once(0).chain(states).map(|from| Choice {
            from,
            reach: self.reach(from),
        });
        let best = choices.max_by_key(|choice| (choice.reach, std::cmp::Reverse(choice.from)));
        best.unwrap_or(Choice { from: 0, reach: 0 })
    }

    /// Continues after the records before `given` if pages reach as far from there as from anywhere; otherwise starts
    /// with a state.
    fn choose_from(&self, given: u64) -> Choice {
        let best = self.choose();
        let reach = self.reach(given);
        match given != 0 && reach >= best.reach {
            true => Choice { from: given, reach },
            false => best,
        }
    }

    /// The end of the pages without a gap from a record on.
    fn reach(&self, from: u64) -> u64 {
        let pages = self.pages.iter().map(|(_, page)| page);
        pages.fold(from, |at, page| {
            if page.first <= at && page.next > at {
                page.next
            } else {
                at
            }
        })
    }

    /// Passes on the chosen state, unless records before it were passed on already, and all pages after it.
    fn give(
        &self,
        choice: Choice,
        goes_on: bool,
        log_offset: u64,
        decoder: &mut Decoder,
        cursor: &mut Cursor<'_>,
    ) {
        let mut states = self.states.iter().flatten();
        let state = states.find(|(header, _)| header.seq == choice.from);
        if let Some((header, body)) = state.filter(|_| !goes_on) {
            cursor.state(header.seq, (header.events, header.definitions), body);
        }
        let mut decoded = Decoded::default();
        for (at, page) in &self.pages {
            let from = cursor.expected;
            if page.next <= from {
                continue;
            }
            let offset = log_offset + *at as u64;
            if let Err(what) = decoder.decode(page, self.payload(*at, page), &mut decoded) {
                cursor.bad(offset, || what.to_owned());
                continue;
            }
            cursor.integrity.pages += 1;
            cursor.good(page.first.max(from), offset);
            decoded.each(page, |seq, record| match record {
                _ if seq < from => {}
                Ok(event) => cursor.event(seq, event),
                Err((kind, payload)) => cursor.definition(seq, kind, payload, offset),
            });
        }
    }
}

/// Up to `length` bytes from `offset` on. Missing bytes of a shorter file take no memory.
fn read(input: &Input, offset: u64, length: u64) -> Result<Vec<u8>, ReadError> {
    let file = input
        .length()
        .map_err(|source| input.error(offset, source))?;
    let mut bytes = vec![0; length.min(file.saturating_sub(offset)) as usize];
    let have = input.read(offset, &mut bytes)?;
    bytes.truncate(have);
    Ok(bytes)
}

/// Reads all of a bounded capture.
pub(super) fn read_all(
    capture: &Capture,
    bounded: BoundedLayout,
    progress: &Progress,
    cursor: &mut Cursor<'_>,
) -> Result<Dynamic, ReadError> {
    let mut ring = RingImage::new(capture.header.ring_slots, capture.header.checks());
    read_rest(capture, bounded, &mut ring, progress, cursor)
}

/// Reads the records after the cursor. The ring is read first: while the process runs, records that leave it after that
/// are in the log.
pub(super) fn read_rest(
    capture: &Capture,
    bounded: BoundedLayout,
    ring: &mut RingImage,
    progress: &Progress,
    cursor: &mut Cursor<'_>,
) -> Result<Dynamic, ReadError> {
    let start = capture.header.pages_offset();
    let mut attempts = 0;
    loop {
        let indexes = capture.dynamic()?;
        capture.load_ring(ring, &indexes)?;
        attempts += 1;
        let is_last = attempts == LIVE_ATTEMPTS;
        let Some(now) = log(capture, bounded, &indexes, is_last, progress, cursor)? else {
            continue;
        };
        // The rest of the records that the ring held then.
        ring.read(cursor, &indexes);
        if capture.embedded.is_none() && !capture.has_journal_behind(&now) {
            let end = bounded.end(start);
            embedded::report_cut_off(&capture.input, capture.header.nonce, end, cursor)?;
        }
        return Ok(now);
    }
}

/// Reads the records of the log after the cursor.
pub(super) fn read_log(
    capture: &Capture,
    bounded: BoundedLayout,
    progress: &Progress,
    cursor: &mut Cursor<'_>,
) -> Result<(), ReadError> {
    for attempt in 1..=LIVE_ATTEMPTS {
        let (indexes, is_last) = (capture.dynamic()?, attempt == LIVE_ATTEMPTS);
        if log(capture, bounded, &indexes, is_last, progress, cursor)?.is_some() {
            break;
        }
    }
    Ok(())
}

/// The same with a head that was read before. `None` if the log has wrapped around meanwhile, and this was not the last
/// attempt.
fn log(
    capture: &Capture,
    bounded: BoundedLayout,
    indexes: &Dynamic,
    is_last: bool,
    progress: &Progress,
    cursor: &mut Cursor<'_>,
) -> Result<Option<Dynamic>, ReadError> {
    let (input, nonce) = (&capture.input, capture.header.nonce);
    let (start, slots) = (capture.header.pages_offset(), capture.header.ring_slots);
    let log_offset = bounded.log_offset(start);
    let error = |source| input.error(log_offset, source);
    let snapshot = Snapshot::take(input, bounded, start, nonce, progress)?;
    let choice = snapshot.choose_from(cursor.expected);
    let now = capture.dynamic()?;
    let moved = (now.tail, now.pages_end) != (indexes.tail, indexes.pages_end);
    let left_the_ring = indexes.tail.unwrap_or(0);
    // The log may have wrapped around between reading the states and reading it.
    let newest = snapshot.pages.iter().map(|(_, page)| page.next).max();
    let has_gap = choice.reach < left_the_ring.max(newest.unwrap_or(0));
    if moved && has_gap && !is_last {
        return Ok(None);
    }
    let goes_on = cursor.expected != 0 && choice.from == cursor.expected;
    if !goes_on {
        cursor.restart();
        cursor.integrity.bounded = Some(Bounded {
            // While the process runs there is room for the ring, here or as the journal.
            bytes: bounded.end(layout::ring_end(slots)),
            from: Seq(choice.from),
        });
    }
    if choice.reach == 0 && left_the_ring > 0 {
        cursor.bad(start, || {
            "neither state is whole, and the log does not go back to the start".to_owned()
        });
    }
    let mut decoder = Decoder::new().map_err(error)?;
    snapshot.give(choice, goes_on, log_offset, &mut decoder, cursor);
    Ok(Some(now))
}

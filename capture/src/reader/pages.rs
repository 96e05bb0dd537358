//! The pages, in file order.

use super::cursor::Cursor;
use super::dynamic::Dynamic;
use super::embedded;
use super::error::ReadError;
use super::input::Input;
use super::parallel_decode::{self, ParallelDecode};
use super::progress::{How, Progress};
use crate::layout;
use crate::page::{Decoded, Decoder, HEADER_BYTES, Header, MAGIC, Part};

/// Bytes of damaged pages that are read: that many, and so many times the file. In a damaged file each of many headers may begin a
/// page as long as pages get. Without such overlaps, no file has more than its length.
pub(super) const IN_VAIN: (u64, u64) = (256 << 20, 8);

/// Bytes of the first block of a search for the next page.
const FIRST_SEARCH: usize = 4096;

pub(super) struct Pages<'a> {
    input: &'a Input,
    nonce: u64,
    /// Where the next page must start.
    offset: u64,
    /// Where the last page that was read started.
    last_start: u64,
    decoder: Decoder,
    decoded: Decoded,
    payload: Vec<u8>,
    how: How,
    /// Bytes of damaged pages.
    in_vain: u64,
    /// Whether the rest was not read because of these.
    gave_up: bool,
}

/// The data at an offset.
enum Found {
    /// A complete page, decoded.
    Page(Header),
    /// A skipped page with a valid header.
    Passed(Header),
    /// A page with a valid header and damaged content.
    Broken(Header, &'static str),
    Nothing(&'static str),
}

impl<'a> Pages<'a> {
    pub(super) fn new(
        input: &'a Input,
        nonce: u64,
        offset: u64,
        how: How,
    ) -> Result<Self, ReadError> {
        let decoder = Decoder::new().map_err(|source| input.error(offset, source))?;
        Ok(Self {
            input,
            nonce,
            offset,
            last_start: offset,
            decoder,
            decoded: Decoded::default(),
            payload: Vec::new(),
            how,
            in_vain: 0,
            gave_up: false,
        })
    }

    /// Reads the pages up to `published`, their end according to the header; with `past`, also
    /// complete pages after it. Returns whether there were any.
    pub(super) fn read(
        &mut self,
        cursor: &mut Cursor<'_>,
        progress: &Progress,
        published: u64,
        past: bool,
    ) -> Result<bool, ReadError> {
        let rest = published.saturating_sub(self.offset);
        let threads = match self.how.threads {
            _ if past || rest == 0 => 0,
            Some(threads) => threads,
            None => parallel_decode::threads_for(rest),
        };
        let (input, nonce, part) = (self.input, self.nonce, self.how.part);
        parallel_decode::with(input, nonce, part, published, threads, |parallel| {
            self.read_with(parallel, cursor, progress, published, past)
        })
    }

    /// The same, with pages that other threads have decoded.
    fn read_with(
        &mut self,
        parallel: Option<&ParallelDecode<'_>>,
        cursor: &mut Cursor<'_>,
        progress: &Progress,
        published: u64,
        past: bool,
    ) -> Result<bool, ReadError> {
        let mut moved = false;
        while (past || self.offset < published) && !progress.is_stopped() && !self.gave_up {
            let offset = self.offset;
            if self.in_vain > IN_VAIN.0 {
                let length = self.input.own_length();
                let length = length.map_err(|source| self.input.error(offset, source))?;
                if self.in_vain > IN_VAIN.0.saturating_add(length.saturating_mul(IN_VAIN.1)) {
                    let what = "too many pages are damaged: the rest was not read";
                    cursor.integrity.damaged(offset, what);
                    self.gave_up = true;
                    return Ok(moved);
                }
            }
            let is_published = offset < published;
            let there = parallel.and_then(|parallel| parallel.take(offset, &mut self.decoded));
            let given = cursor.expected.min(cursor.ahead);
            let found = match there {
                Some(header) => Found::Page(header),
                None => self.at(offset, given)?,
            };
            let next = match found {
                Found::Page(header) => {
                    self.give(cursor, &header);
                    self.last_start = offset;
                    moved = true;
                    Some(offset + HEADER_BYTES as u64 + u64::from(header.payload_bytes))
                }
                Found::Passed(header) => {
                    cursor.pass(header.next);
                    self.last_start = offset;
                    moved = true;
                    Some(offset + HEADER_BYTES as u64 + u64::from(header.payload_bytes))
                }
                Found::Broken(header, what) if is_published => {
                    cursor.bad(offset, || {
                        let Header {
                            events,
                            definitions,
                            ..
                        } = header;
                        format!("{what}: {events} events and {definitions} definitions are lost")
                    });
                    Some(offset + HEADER_BYTES as u64 + u64::from(header.payload_bytes))
                }
                Found::Nothing(what) if is_published => {
                    cursor.bad(offset, || what.to_owned());
                    self.search(offset + 1)?
                }
                // An unfinished page, unless there are more pages after it.
                Found::Broken(_, what) | Found::Nothing(what) => {
                    let next = self.search(offset + 1)?;
                    if next.is_some() {
                        // Unless a running process has finished it meanwhile.
                        let now = Dynamic::pages_end(self.input, self.nonce);
                        if now.is_ok_and(|end| end.is_some_and(|end| end > offset)) {
                            return Ok(true);
                        }
                        cursor.bad(offset, || what.to_owned());
                    }
                    next
                }
            };
            match next {
                Some(next) => self.offset = next,
                None if is_published => {
                    // The rest is lost and need not be read again.
                    self.offset = published;
                    return Ok(moved);
                }
                None => return Ok(moved),
            }
            progress.set(self.offset);
        }
        Ok(moved)
    }

    /// Compares the end of the pages with the header.
    pub(super) fn finish(&self, cursor: &mut Cursor<'_>, dynamic: &Dynamic) {
        // A process may die between writing a page and publishing it.
        let end = dynamic.pages_end;
        if !self.gave_up && end.is_some_and(|end| end < self.offset && end != self.last_start) {
            let what = "where the pages end is damaged: pages lie beyond";
            cursor.integrity.damaged(layout::dynamic::PAGES_END, what);
        }
    }

    /// Reports embedded names after the pages whose end is missing.
    pub(super) fn report_cut_off_names(&self, cursor: &mut Cursor<'_>) -> Result<(), ReadError> {
        embedded::report_cut_off(self.input, self.nonce, self.offset, cursor)
    }

    /// `given`: the records before it have been passed on already.
    fn at(&mut self, offset: u64, given: u64) -> Result<Found, ReadError> {
        let mut bytes = [0; HEADER_BYTES];
        let have = self.input.read(offset, &mut bytes)?;
        if have < HEADER_BYTES {
            return Ok(Found::Nothing("the file ends before its pages do"));
        }
        let header = match Header::decode(&bytes, self.nonce) {
            Ok(header) => header,
            Err(what) => return Ok(Found::Nothing(what)),
        };
        let has_none = self.how.part == Part::Definitions && header.definitions == 0;
        if has_none || header.next <= given {
            return Ok(Found::Passed(header));
        }
        // At most 16 MiB, by the header's limits.
        self.payload.resize(header.payload_bytes as usize, 0);
        let have = self
            .input
            .read(offset + HEADER_BYTES as u64, &mut self.payload)?;
        if have < self.payload.len() {
            self.in_vain += have as u64;
            return Ok(Found::Broken(header, "the file ends within a page"));
        }
        Ok(
            match self
                .decoder
                .decode_part(self.how.part, &header, &self.payload, &mut self.decoded)
            {
                Ok(()) => Found::Page(header),
                Err(what) => {
                    self.in_vain += self.payload.len() as u64;
                    Found::Broken(header, what)
                }
            },
        )
    }

    fn give(&self, cursor: &mut Cursor<'_>, header: &Header) {
        let from = cursor.expected;
        if header.first < from && !cursor.may_have_given(header.first) {
            cursor
                .integrity
                .damaged(self.offset, "a page repeats records; it was passed over");
            return;
        }
        cursor.integrity.pages += 1;
        cursor.good(header.first.max(from), self.offset);
        self.decoded.each(header, |seq, record| match record {
            _ if seq < from => {}
            Ok(event) => cursor.event(seq, event),
            Err((kind, payload)) => cursor.definition(seq, kind, payload, self.offset),
        });
        // What stacks they have is known by now.
        for site in &self.decoded.sites {
            cursor.event(header.next - 1, site);
        }
        cursor.pass(header.next);
    }

    /// The offset of the next page with a valid header, from `offset` on.
    fn search(&self, mut offset: u64) -> Result<Option<u64>, ReadError> {
        let most = self.input.search_bytes(offset)?;
        let mut bytes = vec![0; most.min(FIRST_SEARCH)];
        loop {
            let have = self.input.read(offset, &mut bytes)?;
            for start in (0..have.saturating_sub(MAGIC.len() - 1))
                .filter(|&start| bytes[start..].starts_with(&MAGIC))
            {
                let mut header = [0; HEADER_BYTES];
                let at = offset + start as u64;
                let whole = self.input.read(at, &mut header)? == HEADER_BYTES;
                if whole && Header::decode(&header, self.nonce).is_ok() {
                    return Ok(Some(at));
                }
            }
            if have < bytes.len() {
                return Ok(None);
            }
            // Blocks overlap, so that no page's first bytes are split.
            offset += (have - (MAGIC.len() - 1)) as u64;
            bytes.resize((2 * bytes.len()).min(most), 0);
        }
    }
}

#[cfg(test)]
mod tests;

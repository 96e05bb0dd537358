//! An open capture: its header, the sources of its records, and its counters.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::cursor::Cursor;
use super::dynamic::{Counted, Dynamic};
use super::error::ReadError;
use super::input::Input;
use super::integrity::{Counters, Header, RingState};
use super::queue::Queue;
use super::ring_image::RingImage;
use super::{embedded, ring_file};
use crate::embedded::Part;
use crate::header::StaticHeader;
use crate::{Nanos, Seq, layout};

/// The number of attempts to copy the ring of a running process before only the pages are read.
pub(super) const LIVE_ATTEMPTS: usize = 16;

#[derive(Debug)]
pub(super) struct Capture {
    pub(super) input: Input,
    pub(super) header: StaticHeader,
    /// Which copy of the static header is damaged: the first (true) or the second.
    pub(super) bad_copy: Option<bool>,
    /// The embedded names after the capture.
    pub(super) embedded: Option<Part>,
    /// The ring's file, if the capture does not hold its ring and the file is there.
    ring: Option<Input>,
    /// Whether a process of another container had it mapped then.
    is_in_use_elsewhere: bool,
    /// Whether the process had closed the capture by then, or replaced its program.
    is_left: bool,
    /// Why a file at its path was rejected.
    refused: Option<String>,
    /// The capture's owner.
    owner: u32,
}

impl Capture {
    pub(super) fn new(
        mut input: Input,
        header: StaticHeader,
        bad_copy: Option<bool>,
        length: u64,
    ) -> io::Result<Self> {
        let embedded = embedded::find(&input, length, header.nonce)?;
        if let Some(part) = embedded {
            input.end_at(part.start);
        }
        let owner = input.metadata()?.uid();
        let (mut ring, mut is_in_use_elsewhere, mut refused) = (None, false, None);
        let mut is_left = !header.has_ring() && is_closed(&input, &header)?;
        // Names are embedded in captures of processes that have ended.
        if embedded.is_none() && !header.has_ring() && !is_left {
            match ring_file::find(&header, owner) {
                Ok(None) => is_left = ring_file::is_unmapped(&header),
                Ok(Some(found)) => {
                    is_left = found.is_left();
                    is_in_use_elsewhere = found.is_in_use_elsewhere();
                    let path = header.ring_path().unwrap_or(Path::new(""));
                    let (slots, bytes) = (header.ring_slots, found.queue_bytes);
                    let again = found.file.try_clone()?;
                    input.with_queue(Queue::new(again, header.checks(), slots, bytes));
                    ring = Some(Input::of(path, found.file));
                }
                Err(why) => refused = Some(why),
            }
        }
        Ok(Self {
            input,
            header,
            bad_copy,
            embedded,
            ring,
            is_in_use_elsewhere,
            is_left,
            refused,
            owner,
        })
    }

    /// The file whose head has the most information.
    fn head(&self) -> &Input {
        self.ring.as_ref().unwrap_or(&self.input)
    }

    /// The capture's own length, in a file with `length` bytes.
    pub(super) fn own_bytes(&self, length: u64) -> u64 {
        self.embedded.map_or(length, |part| part.start)
    }

    /// The offset of the static header's damaged copy. A copy that was not there when the capture was opened may be there now:
    /// a process writes one after the other when it begins.
    pub(super) fn damaged_copy(&self) -> io::Result<Option<u64>> {
        let Some(first) = self.bad_copy else {
            return Ok(None);
        };
        let offset = layout::STATIC_COPIES[usize::from(!first)];
        let mut bytes = [0; layout::STATIC_BYTES];
        self.input.fill(offset, &mut bytes)?;
        let is_whole = StaticHeader::decode(&bytes).is_ok_and(|header| header == self.header);
        Ok((!is_whole).then_some(offset))
    }

    /// See [`super::Reader::own_bytes_at`].
    pub(super) fn own_bytes_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        self.input.fill(offset, bytes)
    }

    pub(super) fn header(&self) -> io::Result<Header> {
        let dynamic = Dynamic::read(self.head(), &self.header.checks())?;
        Ok(self.header_of(&dynamic))
    }

    fn header_of(&self, dynamic: &Dynamic) -> Header {
        Header {
            version: layout::VERSION,
            nonce: self.header.nonce,
            pid: self.header.pid,
            parent_pid: self.header.parent_pid,
            process_start_ticks: self.header.process_start_ticks,
            started_wall_ns: self.header.started_wall,
            started_monotonic_ns: self.header.started_monotonic,
            started_boottime_ns: self.header.started_boottime,
            boot_id: self.header.boot_id,
            ring_slots: self.header.ring_slots,
            ring_in_use_elsewhere: self.is_in_use_elsewhere,
            is_left: self.is_left,
            ended: dynamic.ended.unwrap_or(None).map(|ended| Nanos(ended.time)),
            owner: self.owner,
        }
    }

    pub(super) fn counters(&self) -> Counters {
        // Errors here are reported by `read`.
        let Ok(counted) = self.counted() else {
            return Counters::default();
        };
        let rows = counted.rows.into_iter();
        Counters {
            of: counted.of.map(Seq),
            rows: rows
                .filter_map(|(device, level, row)| Some((device, level, row.ok()?)))
                .collect(),
        }
    }

    pub(super) fn counted(&self) -> io::Result<Counted> {
        let is_running = || self.header().is_ok_and(|header| header.is_running());
        Counted::read(self.head(), &self.header.checks(), is_running)
    }

    pub(super) fn ring_state(&self, dynamic: &Dynamic) -> RingState {
        if self.header.has_ring() {
            return RingState::NotNeeded;
        }
        if self.ring.is_some() {
            return RingState::Read;
        }
        let journal = dynamic.journal.unwrap_or(None);
        match journal {
            Some(journal) if journal.is_complete => RingState::NotNeeded,
            _ => {
                let since = Nanos(journal.map_or(0, |journal| journal.time));
                match &self.refused {
                    Some(why) => RingState::Refused(why.clone(), since),
                    None => RingState::Gone(since),
                }
            }
        }
    }

    /// Loads an image of the ring, or of its journal in the file.
    pub(super) fn load_ring(
        &self,
        ring: &mut RingImage,
        dynamic: &Dynamic,
    ) -> Result<(), ReadError> {
        if self.header.has_ring() || self.ring.is_some() {
            ring.load(self.head(), layout::RING_OFFSET)?;
            return match dynamic.tail {
                Some(tail) => ring.read_changed_again(self.head(), tail),
                None => Ok(()),
            };
        }
        let journal = dynamic.journal.unwrap_or(None);
        let known = dynamic.known.unwrap_or(0);
        match journal.filter(|journal| journal.offset != 0) {
            // It is as long as the ring: a missing part was cut off.
            Some(journal) if journal.is_complete => ring.load(&self.input, journal.offset),
            Some(journal) => ring.load_journal(&self.input, journal.offset, known),
            // Without a journal, only the pages are known.
            None => {
                ring.load_nothing(known);
                Ok(())
            }
        }
    }

    /// Passes on the committed records in the ring of a running process after the cursor.
    pub(super) fn follow_ring(
        &self,
        ring: &mut RingImage,
        cursor: &mut Cursor<'_>,
    ) -> Result<(), ReadError> {
        match self.header.has_ring() || self.ring.is_some() {
            true => ring.follow(self.head(), cursor),
            false => Ok(()),
        }
    }

    /// Whether the data after the pages is the journal.
    pub(super) fn has_journal_behind(&self, dynamic: &Dynamic) -> bool {
        !self.header.has_ring()
            && dynamic.pages_end.is_some()
            && !matches!(dynamic.journal, Ok(Some(journal)) if journal.offset == 0)
    }

    pub(super) fn dynamic(&self) -> Result<Dynamic, ReadError> {
        let error = |source| self.input.error(layout::DYNAMIC_OFFSET, source);
        let dynamic = Dynamic::read(self.head(), &self.header.checks()).map_err(error)?;
        self.input.refresh().map_err(error)?;
        Ok(dynamic)
    }
}

/// Whether all records are in the capture's own file, so that the ring is not needed.
pub(crate) fn is_closed(input: &Input, header: &StaticHeader) -> io::Result<bool> {
    let dynamic = Dynamic::read(input, &header.checks())?;
    Ok(matches!(dynamic.journal, Ok(Some(journal)) if journal.is_complete))
}

//! Versions 1 and 2 of the format: 2 is bounded.

mod ahead;
mod baked;
mod bounded;
mod cursor;
mod dynamic;
mod pages;
mod ring;

use std::io;

use super::input::Input;
use super::{Header, How, Integrity, Progress, ReadError, Record};
use crate::baked::Part;
use crate::header::StaticHeader;
use crate::{CounterValues, DeviceOrdinal, Level, Nanos, layout};
use cursor::Cursor;
use dynamic::{Dynamic, RowState};
use pages::Pages;
use ring::RingImage;

/// How often an image of the ring of a running process is tried for before the pages must do.
const LIVE_ATTEMPTS: usize = 16;

#[derive(Debug)]
pub(super) struct Capture {
    input: Input,
    header: StaticHeader,
    /// Which copy of the static header does not fit the other: the first (true), the second, none.
    bad_copy: Option<bool>,
    /// Where names are baked in behind the capture.
    baked: Option<Part>,
}

impl Capture {
    pub(super) fn new(
        mut input: Input,
        header: StaticHeader,
        bad_copy: Option<bool>,
        length: u64,
    ) -> io::Result<Self> {
        let baked = baked::find(&input, length, header.nonce)?;
        if let Some(part) = baked {
            input.end_at(part.start);
        }
        Ok(Self {
            input,
            header,
            bad_copy,
            baked,
        })
    }

    /// The capture's own length, of a file with `length` bytes.
    pub(super) fn own_bytes(&self, length: u64) -> u64 {
        self.baked.map_or(length, |part| part.start)
    }

    /// See [`super::Reader::own_bytes_at`].
    pub(super) fn own_bytes_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        self.input.fill(offset, bytes)
    }

    pub(super) fn header(&self) -> io::Result<Header> {
        let dynamic = Dynamic::read(&self.input, &self.header.checks())?;
        Ok(self.header_of(&dynamic))
    }

    fn header_of(&self, dynamic: &Dynamic) -> Header {
        Header {
            version: self.header.version(),
            nonce: self.header.nonce,
            pid: self.header.pid,
            parent_pid: self.header.parent_pid,
            process_start_ticks: self.header.process_start_ticks,
            started_wall_ns: self.header.started_wall,
            started_monotonic_ns: self.header.started_monotonic,
            started_boottime_ns: self.header.started_boottime,
            boot_id: self.header.boot_id,
            ring_slots: self.header.ring_slots,
            ended: dynamic.ended.unwrap_or(None).map(|ended| Nanos(ended.time)),
        }
    }

    pub(super) fn counters(&self) -> Vec<(DeviceOrdinal, Level, CounterValues)> {
        // What cannot be read now is reported by `read`.
        let rows = self.rows().unwrap_or_default();
        rows.into_iter()
            .filter_map(|(device, level, state)| match state {
                RowState::Good(values) => Some((device, level, values)),
                RowState::InUpdate(_) | RowState::Damaged => None,
            })
            .collect()
    }

    pub(super) fn read(
        &self,
        how: How,
        progress: &Progress,
        sink: &mut dyn FnMut(Record<'_>),
    ) -> Result<Integrity, ReadError> {
        let mut cursor = Cursor::new(sink);
        if let Some(first) = self.bad_copy {
            let offset = layout::STATIC_COPIES[usize::from(!first)];
            cursor.integrity.damaged(
                offset,
                "a copy of the header is damaged; the other was used",
            );
        }
        if let Some(part) = self.baked {
            baked::read(&self.input, self.header.nonce, part, &mut cursor)?;
        }
        let dynamic = match self.header.areas {
            None => self.read_growing(how, progress, &mut cursor)?,
            Some(areas) => bounded::read_all(self, areas, progress, &mut cursor)?,
        };
        progress.set(progress.total());
        let rows = self
            .rows()
            .map_err(|source| self.input.error(layout::COUNTERS_OFFSET, source))?;
        let changes = core::mem::take(&mut cursor.changes);
        let mut integrity = cursor.finish();
        dynamic.report(&mut integrity);
        // How many changes a held row had may be compared where all of them are known.
        let may_compare = integrity.damage.is_empty()
            && self.header.areas.is_none()
            && !self.header_of(&dynamic).is_running();
        let unseen = integrity.in_flight.saturating_add(integrity.events_lost);
        for (device, level, state) in rows {
            let number = layout::row_number(device, level).unwrap_or_default();
            let is_possible = |version: u32| {
                let seen = changes.get(number as usize).copied().unwrap_or_default();
                let beyond = u64::from(version / 2).wrapping_sub(seen) & (u64::from(u32::MAX) / 2);
                !may_compare || beyond <= unseen
            };
            match state {
                RowState::Good(_) => {}
                RowState::InUpdate(version) if is_possible(version) => {
                    integrity.counters_in_update.push((device, level));
                }
                RowState::InUpdate(_) | RowState::Damaged => {
                    let (device, offset) = (device.0, layout::row_offset(number));
                    let what =
                        format!("the counters of device {device}, level {level} are damaged");
                    integrity.damaged(offset, what);
                }
            }
        }
        Ok(integrity)
    }

    fn rows(&self) -> io::Result<Vec<(DeviceOrdinal, Level, RowState)>> {
        let is_running = || self.header().is_ok_and(|header| header.is_running());
        dynamic::rows(&self.input, &self.header.checks(), is_running)
    }

    /// Gives the records of a capture whose pages go on to the file's end.
    fn read_growing(
        &self,
        how: How,
        progress: &Progress,
        cursor: &mut Cursor<'_>,
    ) -> Result<Dynamic, ReadError> {
        let slots = self.header.ring_slots;
        let start = layout::pages_offset(slots);
        let mut pages = Pages::new(&self.input, self.header.nonce, start, how)?;
        let mut ring = RingImage::new(slots, self.header.checks());
        let mut recorded_at_start = None;
        let mut attempts = 0;
        // While the process runs, the drain moves records from the ring into pages. The ring's image
        // is good if no page was published between the last page read and the image.
        Ok(loop {
            let before = self.dynamic()?;
            let enough = *recorded_at_start.get_or_insert(before.head.unwrap_or(0));
            pages.read(cursor, progress, before.pages_end.unwrap_or(0), false)?;
            let indexes = self.dynamic()?;
            ring.load(&self.input)?;
            let after = self.dynamic()?;
            // What lies past the published end counts if it is whole.
            if after.pages_end == before.pages_end
                && !pages.read(cursor, progress, after.pages_end.unwrap_or(0), true)?
            {
                pages.finish(cursor, &after);
                if self.baked.is_none() {
                    pages.report_cut_off_names(cursor)?;
                }
                ring.read(cursor, &indexes, after.head);
                break after;
            }
            attempts += 1;
            if attempts > LIVE_ATTEMPTS && cursor.expected >= enough {
                // The process writes faster than we can take images, and all that it had recorded
                // when we began has been read.
                break after;
            }
        })
    }

    fn dynamic(&self) -> Result<Dynamic, ReadError> {
        Dynamic::read(&self.input, &self.header.checks())
            .map_err(|source| self.input.error(layout::DYNAMIC_OFFSET, source))
    }
}

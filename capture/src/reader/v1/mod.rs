//! Version 1 of the format.

mod cursor;
mod dynamic;
mod pages;
mod ring;

use std::io;

use super::input::Input;
use super::{Header, Integrity, Progress, ReadError, Record};
use crate::header::StaticHeader;
use crate::{CounterValues, DeviceOrdinal, Level, Nanos, layout};
use cursor::Cursor;
use dynamic::{Dynamic, RowState};
use pages::Pages;
use ring::RingImage;

/// How often a file that is being written is looked at again before giving up.
const LIVE_ATTEMPTS: usize = 1000;

#[derive(Debug)]
pub(super) struct Capture {
    input: Input,
    header: StaticHeader,
    /// Which copy of the static header does not fit the other: the first (true), the second, none.
    bad_copy: Option<bool>,
}

impl Capture {
    pub(super) fn new(input: Input, header: StaticHeader, bad_copy: Option<bool>) -> Self {
        Self {
            input,
            header,
            bad_copy,
        }
    }

    pub(super) fn header(&self) -> io::Result<Header> {
        let dynamic = Dynamic::read(&self.input, self.header.nonce)?;
        Ok(Header {
            version: 1,
            nonce: self.header.nonce,
            pid: self.header.pid,
            parent_pid: self.header.parent_pid,
            process_start_ticks: self.header.process_start_ticks,
            started_wall_ns: self.header.started_wall,
            started_monotonic_ns: self.header.started_monotonic,
            started_boottime_ns: self.header.started_boottime,
            boot_id: self.header.boot_id,
            ring_slots: self.header.ring_slots,
            ended: dynamic.ended.unwrap_or(None).map(Nanos),
        })
    }

    pub(super) fn counters(&self) -> Vec<(DeviceOrdinal, Level, CounterValues)> {
        let rows = dynamic::rows(&self.input, self.header.nonce);
        rows.into_iter()
            .filter_map(|(device, level, state)| match state {
                RowState::Good(values) => Some((device, level, values)),
                RowState::InUpdate | RowState::Damaged(_) => None,
            })
            .collect()
    }

    pub(super) fn read(
        &self,
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
        let slots = self.header.ring_slots;
        let mut pages = Pages::new(&self.input, self.header.nonce, layout::pages_offset(slots));
        let mut ring = RingImage::new(slots, self.header.nonce);
        let mut attempts = 0;
        // While the process runs, the drain moves records from the ring into pages. The ring's image
        // is good if no page was published between the last page read and the image.
        let dynamic = loop {
            let before = self.dynamic(layout::DYNAMIC_OFFSET)?;
            pages.read(&mut cursor, progress, before.pages_end, false)?;
            ring.load(&self.input)?;
            let after = self.dynamic(layout::DYNAMIC_OFFSET)?;
            attempts += 1;
            let has_grown = after.pages_end != before.pages_end;
            if !has_grown || attempts == LIVE_ATTEMPTS {
                // What lies past the published end counts if it is whole.
                let moved = pages.read(&mut cursor, progress, after.pages_end, true)?;
                if !moved || attempts == LIVE_ATTEMPTS {
                    break after;
                }
            }
        };
        progress.set(progress.total());
        pages.finish(&mut cursor, &dynamic)?;
        ring.read(&mut cursor, &dynamic);
        let rows = dynamic::rows(&self.input, self.header.nonce);
        let mut integrity = cursor.finish();
        dynamic.report(&mut integrity);
        for (device, level, state) in rows {
            match state {
                RowState::Good(_) => {}
                RowState::InUpdate => integrity.counters_in_update.push((device, level)),
                RowState::Damaged(offset) => {
                    let device = device.0;
                    let what =
                        format!("the counters of device {device}, level {level} are damaged");
                    integrity.damaged(offset, what);
                }
            }
        }
        Ok(integrity)
    }

    fn dynamic(&self, offset: u64) -> Result<Dynamic, ReadError> {
        Dynamic::read(&self.input, self.header.nonce)
            .map_err(|source| self.input.error(offset, source))
    }
}

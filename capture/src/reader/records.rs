//! The contents of a capture: embedded names, records, and completeness.

use super::capture::Capture;
use super::cursor::Cursor;
use super::dynamic::Dynamic;
use super::error::ReadError;
use super::integrity::{Integrity, Record};
use super::progress::{How, Progress};
use super::{bounded, embedded, growing};
use crate::layout;

/// Passes every record to `sink` and returns how complete the capture is.
pub(super) fn read_all(
    capture: &Capture,
    how: How,
    progress: &Progress,
    sink: &mut dyn FnMut(Record<'_>),
) -> Result<Integrity, ReadError> {
    let mut cursor = Cursor::new(sink);
    begin(capture, &mut cursor)?;
    let dynamic = match capture.header.bounded {
        None => growing::read_all(capture, how, progress, &mut cursor)?,
        Some(bounded) => bounded::read_all(capture, bounded, progress, &mut cursor)?,
    };
    progress.set(progress.total());
    conclude(capture, &dynamic, cursor.finish())
}

/// Passes on everything that comes before the records.
pub(super) fn begin(capture: &Capture, cursor: &mut Cursor<'_>) -> Result<(), ReadError> {
    match capture.embedded {
        Some(part) => embedded::read(&capture.input, capture.header.nonce, part, cursor),
        None => Ok(()),
    }
}

/// Returns how complete the capture is, after everything was passed on.
pub(super) fn conclude(
    capture: &Capture,
    dynamic: &Dynamic,
    mut integrity: Integrity,
) -> Result<Integrity, ReadError> {
    let bad_copy = capture
        .damaged_copy()
        .map_err(|source| capture.input.error(layout::STATIC_COPIES[0], source))?;
    if let Some(offset) = bad_copy {
        let what = "a copy of the header is damaged; the other was used";
        integrity.damaged(offset, what);
    }
    dynamic.report(&mut integrity);
    integrity.ring = capture.ring_state(dynamic);
    let counted = capture
        .counted()
        .map_err(|source| capture.input.error(layout::COUNTERS_OFFSET, source))?;
    if counted.is_damaged {
        let what = "the place that the counters are of is damaged";
        integrity.damaged(layout::dynamic::COUNTED, what);
    }
    for (device, level, row) in counted.rows {
        if row.is_err() {
            let number = layout::row_number(device, level).unwrap_or_default();
            let (device, offset) = (device.0, layout::row_offset(number));
            let what = format!("the counters of device {device}, level {level} are damaged");
            integrity.damaged(offset, what);
        }
    }
    Ok(integrity)
}

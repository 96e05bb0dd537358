//! Follows a capture that is being written: each record once, in order, as soon as it is available.
//!
//! Records are read from the ring as they are committed. If the ring has wrapped around meanwhile, they are read
//! from pages. If a bounded capture's pages have wrapped around as well, its state replaces them, and reading
//! starts again.

use super::bounded;
use super::capture::{Capture, LIVE_ATTEMPTS};
use super::cursor::{Cursor, Stand};
use super::dynamic::Dynamic;
use super::error::ReadError;
use super::growing;
use super::integrity::{Integrity, Record};
use super::pages::Pages;
use super::progress::{How, Progress};
use super::records::{begin, conclude};
use super::ring_image::RingImage;

/// Receives the records of a growing capture.
pub trait Follow {
    /// The next record. [`Record::State`] may come at any time from a bounded capture: it replaces all earlier
    /// records.
    fn record(&mut self, record: Record<'_>);

    /// Called when all available records were passed on. May wait for any time; returns whether to continue.
    fn caught_up(&mut self) -> bool;
}

/// Passes on existing records, then new ones, until the process has ended or `to` stops it (`None`).
pub(super) fn follow(
    capture: &Capture,
    how: How,
    progress: &Progress,
    to: &mut dyn Follow,
) -> Result<Option<Integrity>, ReadError> {
    let start = capture.header.pages_offset();
    let mut pages = Pages::new(&capture.input, capture.header.nonce, start, how)?;
    let mut ring = RingImage::new(capture.header.ring_slots, capture.header.checks());
    let mut stand = Stand::default();
    let mut is_first = true;
    loop {
        // Checked before anything is read: the records of an ended process are complete.
        let header = capture.header();
        let header = header.map_err(|source| capture.input.error(0, source))?;
        let mut sink = |record: Record<'_>| to.record(record);
        let mut cursor = Cursor::at(&mut sink, stand);
        if std::mem::take(&mut is_first) {
            begin(capture, &mut cursor)?;
        }
        if !header.is_running() {
            let dynamic = match capture.header.bounded {
                None => growing::read_rest(capture, &mut pages, &mut ring, progress, &mut cursor)?,
                Some(of) => bounded::read_rest(capture, of, &mut ring, progress, &mut cursor)?,
            };
            progress.set(progress.total());
            return conclude(capture, &dynamic, cursor.finish()).map(Some);
        }
        round(capture, &mut pages, &mut ring, progress, &mut cursor)?;
        stand = cursor.stand();
        if !to.caught_up() {
            return Ok(None);
        }
    }
}

/// Passes on the records since the last round.
fn round(
    capture: &Capture,
    pages: &mut Pages<'_>,
    ring: &mut RingImage,
    progress: &Progress,
    cursor: &mut Cursor<'_>,
) -> Result<(), ReadError> {
    for _ in 0..LIVE_ATTEMPTS {
        let dynamic = capture.dynamic()?;
        match capture.header.bounded {
            // Headers of pages with records from the ring are skipped, so that later pages are found at once.
            None => drop(pages.read(cursor, progress, dynamic.pages_end.unwrap_or(0), false)?),
            Some(of) if is_behind(cursor, &dynamic) => {
                bounded::read_log(capture, of, progress, cursor)?;
            }
            Some(_) => {}
        }
        capture.follow_ring(ring, cursor)?;
        if !is_behind(cursor, &capture.dynamic()?) {
            break;
        }
    }
    Ok(())
}

/// Whether the next records are no longer in the ring.
fn is_behind(cursor: &Cursor<'_>, dynamic: &Dynamic) -> bool {
    dynamic.tail.is_some_and(|tail| tail > cursor.expected)
}

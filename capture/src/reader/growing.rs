//! A capture whose file grows: the pages, and the ring.

use super::capture::{Capture, LIVE_ATTEMPTS};
use super::cursor::Cursor;
use super::dynamic::Dynamic;
use super::error::ReadError;
use super::pages::Pages;
use super::progress::{How, Progress};
use super::ring_image::RingImage;

/// Reads the records of a capture whose pages extend to the file's end.
pub(super) fn read_all(
    capture: &Capture,
    how: How,
    progress: &Progress,
    cursor: &mut Cursor<'_>,
) -> Result<Dynamic, ReadError> {
    let start = capture.header.pages_offset();
    let mut pages = Pages::new(&capture.input, capture.header.nonce, start, how)?;
    let mut ring = RingImage::new(capture.header.ring_slots, capture.header.checks());
    read_rest(capture, &mut pages, &mut ring, progress, cursor)
}

/// Reads the records after the pages and the cursor.
pub(super) fn read_rest(
    capture: &Capture,
    pages: &mut Pages<'_>,
    ring: &mut RingImage,
    progress: &Progress,
    cursor: &mut Cursor<'_>,
) -> Result<Dynamic, ReadError> {
    let mut recorded_at_start = None;
    let mut attempts = 0;
    // While the process runs, the drain moves records from the ring into pages. The ring's image is
    // valid if no page was published between the last page read and the image.
    Ok(loop {
        let before = capture.dynamic()?;
        let enough = *recorded_at_start.get_or_insert(before.known.unwrap_or(0));
        pages.read(cursor, progress, before.pages_end.unwrap_or(0), false)?;
        if progress.is_stopped() {
            break before;
        }
        let indexes = capture.dynamic()?;
        capture.load_ring(ring, &indexes)?;
        let after = capture.dynamic()?;
        // Data after the published end counts if it is complete.
        let is_same = after.pages_end == before.pages_end;
        if is_same
            && (capture.has_journal_behind(&after)
                || !pages.read(cursor, progress, after.pages_end.unwrap_or(0), true)?)
        {
            pages.finish(cursor, &after);
            if capture.embedded.is_none() && !capture.has_journal_behind(&after) {
                pages.report_cut_off_names(cursor)?;
            }
            ring.read(cursor, &indexes);
            break after;
        }
        attempts += 1;
        if attempts > LIVE_ATTEMPTS && cursor.expected >= enough {
            // The process writes faster than images can be copied, and everything recorded before
            // this point has been read.
            break after;
        }
    })
}

//! The embedded names after the capture.

use super::cursor::Cursor;
use super::error::ReadError;
use super::input::Input;
use crate::embedded::{MARK_BYTES, Part, page_nonce};
use crate::page::{Decoded, Decoder, HEADER_BYTES, Header};
use crate::{DefKind, layout};

/// The part before the closing mark at the file's end, if there is one.
pub(super) fn find(input: &Input, length: u64, nonce: u64) -> std::io::Result<Option<Part>> {
    let mut mark = [0; MARK_BYTES];
    let Some(offset) = length.checked_sub(MARK_BYTES as u64) else {
        return Ok(None);
    };
    let have = input.fill(offset, &mut mark)?;
    let part = Part::closed_by(&mark, nonce, offset);
    Ok(part.filter(|part| have == MARK_BYTES && part.start >= layout::RING_OFFSET))
}

/// Passes on all definitions of the part. A damaged page is reported and skipped.
pub(super) fn read(
    input: &Input,
    nonce: u64,
    part: Part,
    cursor: &mut Cursor<'_>,
) -> Result<(), ReadError> {
    let mut mark = [0; MARK_BYTES];
    input.read_embedded(part.start, &mut mark)?;
    if !Part::opens(&mark, nonce, part.start) {
        let what = "where the embedded names start is damaged";
        cursor.integrity.damaged(part.start, what);
    }
    let error = |source| input.error(part.start, source);
    let mut decoder = Decoder::new().map_err(error)?;
    let (mut decoded, mut payload) = (Decoded::default(), Vec::new());
    let mut offset = part.start + MARK_BYTES as u64;
    let mut found = 0;
    while offset < part.end {
        let mut bytes = [0; HEADER_BYTES];
        input.read_embedded(offset, &mut bytes)?;
        let header = match Header::decode(&bytes, page_nonce(nonce)) {
            Ok(header) => header,
            Err(what) => {
                let lost = part.symbols.saturating_sub(found);
                let what = format!("in the embedded names: {what}: {lost} of them are lost");
                cursor.integrity.damaged(offset, what);
                return Ok(());
            }
        };
        // At most 16 MiB, by the header's limits.
        payload.resize(header.payload_bytes as usize, 0);
        input.read_embedded(offset + HEADER_BYTES as u64, &mut payload)?;
        found += u64::from(header.definitions);
        match decoder.decode(&header, &payload, &mut decoded) {
            Ok(()) => decoded.each(&header, |_, record| {
                if let Err((DefKind::SYMBOL, payload)) = record {
                    cursor.embedded(DefKind::SYMBOL, payload, offset);
                }
            }),
            Err(what) => {
                let lost = header.definitions;
                let what = format!("in the embedded names: {what}: {lost} of them are lost");
                cursor.integrity.damaged(offset, what);
            }
        }
        offset += HEADER_BYTES as u64 + u64::from(header.payload_bytes);
    }
    Ok(())
}

/// Reports embedded names whose end is missing: an opening mark between the end of the pages and the
/// file's end.
pub(super) fn report_cut_off(
    input: &Input,
    nonce: u64,
    pages_end: u64,
    cursor: &mut Cursor<'_>,
) -> Result<(), ReadError> {
    let magic = Part::magic();
    let mut bytes = vec![0; input.search_bytes(pages_end)?];
    let mut offset = pages_end;
    loop {
        let have = input.read(offset, &mut bytes)?;
        for start in (0..have.saturating_sub(magic.len() - 1))
            .filter(|&start| bytes[start..].starts_with(&magic))
        {
            let at = offset + start as u64;
            let mut mark = [0; MARK_BYTES];
            let have = input.read(at, &mut mark)?;
            if Part::may_open(&mark[..have], nonce, at) {
                let what = "names were embedded from here on, but the end of them is missing";
                cursor.integrity.damaged(at, what);
                return Ok(());
            }
        }
        if have < bytes.len() {
            return Ok(());
        }
        // Blocks overlap, so that no mark's first bytes are split.
        offset += (have - (magic.len() - 1)) as u64;
    }
}

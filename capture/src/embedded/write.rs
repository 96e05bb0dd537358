//! Writes a copy of a capture with an embedded part.

use std::io::{self, Write};

use super::part::{MARK_BYTES, Part, page_nonce};
use crate::{Definition, Reader, page};

/// Limits of bytes and definitions at which a page is closed. The reader accepts 16 MiB and 65,536;
/// a definition is cut to less than the difference.
const PAGE_BYTES: usize = 4 << 20;
const PAGE_DEFINITIONS: usize = 32_768;
/// Limits of inlined functions at one address, and of bytes of a name; the rest is omitted.
const FUNCTIONS: usize = 128;
const TEXT_BYTES: usize = 16 << 10;

/// Why a capture could not be copied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmbedError {
    /// The capture cannot be read.
    #[error("cannot read the capture: {0}")]
    Read(io::Error),
    /// The copy cannot be written.
    #[error("cannot write: {0}")]
    Write(#[from] io::Error),
}

/// Writes the capture that `reader` has open to `to`, without its embedded part and with `symbols`
/// embedded. Only definitions of [`Definition::Symbol`] are embedded. `copied` is called with the
/// number of bytes of the capture copied so far. Returns how many symbols were written. The same
/// symbols give the same bytes.
///
/// # Errors
/// I/O errors of either side.
pub fn embed(
    reader: &Reader,
    symbols: impl IntoIterator<Item = Definition>,
    to: &mut dyn Write,
    copied: &mut dyn FnMut(u64),
) -> Result<u64, EmbedError> {
    let (nonce, start) = (reader.header().nonce, reader.own_bytes());
    copy(reader, start, to, copied)?;
    to.write_all(&Part::opening(nonce, start))?;
    let mut part = Part {
        start,
        end: start + MARK_BYTES as u64,
        symbols: 0,
    };
    let mut builder = page::Builder::new(page_nonce(nonce));
    builder.start(0);
    let (mut bytes, mut count) = (0, 0);
    let mut write_page = |builder: &mut page::Builder| -> io::Result<u64> {
        let next = builder.next();
        let page = builder.finish();
        to.write_all(page)?;
        let length = page.len() as u64;
        builder.start(next);
        Ok(length)
    };
    for symbol in symbols {
        let Some(symbol) = cut_to_size(symbol) else {
            continue;
        };
        let payload = symbol.payload();
        builder.definition(symbol.kind(), &payload);
        part.symbols += 1;
        bytes += payload.len();
        count += 1;
        if bytes >= PAGE_BYTES || count >= PAGE_DEFINITIONS {
            part.end += write_page(&mut builder)?;
            (bytes, count) = (0, 0);
        }
    }
    if !builder.is_empty() {
        part.end += write_page(&mut builder)?;
    }
    to.write_all(&part.closing(nonce))?;
    Ok(part.symbols)
}

/// Copies the capture's own bytes, up to its length when it was opened.
fn copy(
    reader: &Reader,
    length: u64,
    to: &mut dyn Write,
    copied: &mut dyn FnMut(u64),
) -> Result<(), EmbedError> {
    let mut bytes = vec![0; 1 << 20];
    let mut offset = 0;
    while offset < length {
        let wanted = bytes.len().min((length - offset) as usize);
        let have = reader
            .own_bytes_at(offset, &mut bytes[..wanted])
            .map_err(EmbedError::Read)?;
        if have < wanted {
            let shrank = io::Error::new(io::ErrorKind::UnexpectedEof, "it became shorter");
            return Err(EmbedError::Read(shrank));
        }
        to.write_all(&bytes[..wanted])?;
        offset += wanted as u64;
        copied(offset);
    }
    Ok(())
}

/// Cuts a symbol so that it fits into a page, whatever a library's names are like; None for other
/// kinds.
fn cut_to_size(definition: Definition) -> Option<Definition> {
    let Definition::Symbol {
        module,
        address,
        mut functions,
    } = definition
    else {
        return None;
    };
    // The outermost function, the last, is the one that was called.
    let inner = functions.len().saturating_sub(1).min(FUNCTIONS - 1);
    functions.drain(inner..functions.len().saturating_sub(1));
    for function in &mut functions {
        for text in [&mut function.name, &mut function.file] {
            if text.len() > TEXT_BYTES {
                let mut end = TEXT_BYTES;
                while !text.is_char_boundary(end) {
                    end -= 1;
                }
                text.truncate(end);
            }
        }
    }
    Some(Definition::Symbol {
        module,
        address,
        functions,
    })
}

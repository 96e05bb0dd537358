//! The embedded part: names of native functions that `gpumem-analyze check --symbolize` appends to a capture, so that it can
//! be analyzed without the libraries.
//!
//! A capture with embedded names is the capture, byte for byte, then an opening mark, pages of SYMBOL definitions and
//! a closing mark. A reader that finds the closing mark at the file's end reads the part before the opening mark as
//! if the file ended there, so the contents of the capture, including its damage, cannot change. A mark has 64 bytes:
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 8 | magic: `GPUMBAKE` opens, `GPUMBEND` closes |
//! | 8 | 4 | bytes of the mark: 64 |
//! | 12 | 4 | coding: 1 |
//! | 16 | 8 | the capture's nonce |
//! | 24 | 8 | offset of the opening mark: the capture's own length |
//! | 32 | 8 | offset of the closing mark; 0 in the opening one |
//! | 40 | 8 | SYMBOL definitions; 0 in the opening one |
//! | 48 | 12 | zero |
//! | 60 | 4 | CRC32 of bytes 0–59 |
//!
//! The pages are those of [`crate::page`] with the nonce's complement as nonce, so that they are not mistaken for the
//! capture's own, and count their definitions from 0.
#![forbid(unsafe_code)]

mod part;
mod write;

pub(crate) use part::{MARK_BYTES, Part, page_nonce};
pub use write::{EmbedError, embed};

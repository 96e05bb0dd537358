//! Pickles of plain data: dicts, lists, numbers, texts. Nothing that a pickle says is ever run.
//!
//! # Design constraints
//! - The file is hostile until proven otherwise: no panic, no recursion, and no more memory than some
//!   hundred bytes for each byte of the file (a real snapshot takes six).
//! - What would call a function or make an object of a class is refused, with its place.
//! - Texts are not copied: they are places in the file.
//!
//! # Not suitable for
//! - Pickles of objects. Dicts have texts for keys; tuples, bytes and numbers of more than 64 bits are
//!   passed over.

mod error;
mod opcodes;
mod read;
#[cfg(test)]
mod tests;
mod value;
mod write;

pub use error::PickleError;
pub use read::read;
pub use value::{DictId, ListId, Pickle, Shapes, Text, Value};
pub use write::{List, PickleWriter, Remembered};

//! Pickles of plain data: dicts, lists, numbers, texts. Nothing in a pickle is ever executed.
//!
//! # Design constraints
//! - The file is untrusted: reading it does not panic, does not recurse, and takes at most a few hundred bytes of
//!   memory for each byte of the file (about six for a real snapshot).
//! - An opcode that would call a function or create an object of a class is an error with its position.
//! - Texts are not copied: they are ranges of the file.
//!
//! # Not suitable for
//! - Pickles of objects. Keys of dicts must be texts. Contents of tuples, bytes and numbers of more than 64 bits are
//!   ignored.

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

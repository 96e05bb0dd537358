//! Definitions as bytes. [`crate::DefKind`] defines the fields of each kind; strings and byte strings are a
//! u32 length and that many bytes.

mod decode;
mod encode;
#[cfg(test)]
mod tests;

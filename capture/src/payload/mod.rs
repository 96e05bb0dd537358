//! Definitions as bytes. [`crate::DefKind`]'s table says what each kind holds; strings and byte strings are a
//! u32 length and that many bytes.

mod decode;
mod encode;
#[cfg(test)]
mod tests;

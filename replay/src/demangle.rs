//! Mangled names of C++ in source form, in bounded time and memory: names come from captures and from files that a
//! stranger may have made. A substitution repeats earlier text, so a name of 100 bytes can stand for gigabytes.

use std::fmt;

use cpp_demangle::{BorrowedSymbol, DemangleOptions, DemangleWrite, ParseOptions};

/// Nested names that are parsed and written.
const PARSED: u32 = 96;
const WRITTEN: u32 = 128;

/// Limits in bytes. A name that exceeds one has no source form.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of a mangled name.
    pub name: usize,
    /// Bytes of its source form.
    pub text: usize,
}

/// The source form of a mangled name; `None` if it is not one, or exceeds a limit.
pub fn cpp(mangled: &str, limits: Limits) -> Option<String> {
    if mangled.len() > limits.name {
        return None;
    }
    let options = ParseOptions::default().recursion_limit(PARSED);
    let (symbol, rest) =
        BorrowedSymbol::with_tail_and_options(mangled.as_bytes(), &options).ok()?;
    if !rest.is_empty() {
        return None;
    }
    let mut text = Bounded(String::new(), limits.text);
    let options = DemangleOptions::default().recursion_limit(WRITTEN);
    symbol.structured_demangle(&mut text, &options).ok()?;
    Some(text.0)
}

/// Text and its limit; writing beyond it fails.
struct Bounded(String, usize);

impl DemangleWrite for Bounded {
    fn write_string(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > self.1 {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

//! The program's names for its ranges, scopes and marks: each text is in the capture once, under a
//! number.

use core::hash::BuildHasherDefault;
use core::sync::atomic::{AtomicU32, Ordering};

use dashmap::DashMap;
use gpumem_capture::{DefKind, Writer};
use rustc_hash::FxHasher;

/// Maximum bytes of a name; the rest is cut off.
pub(crate) const LONGEST: usize = 256;

/// Maximum number of distinct names, because some programs create an unlimited number of them.
pub(crate) const MOST: usize = 1 << 14;

/// The name for all others.
const OTHERS: &[u8] = b"(one of more names than are kept)";

/// The numbers of names that are defined in the capture.
#[derive(Default)]
pub(crate) struct Names {
    numbers: DashMap<Box<[u8]>, u32, BuildHasherDefault<FxHasher>>,
    /// The newest number.
    newest: AtomicU32,
}

/// The start of a text, up to the maximum length.
pub(crate) fn cut(text: &[u8]) -> &[u8] {
    text.get(..LONGEST).unwrap_or(text)
}

impl Names {
    /// The number of a name; a new name is defined first. None if that failed.
    pub(crate) fn id_of(&self, writer: &'static Writer, name: &[u8]) -> Option<u32> {
        let mut name = cut(name);
        if let Some(known) = self.numbers.get(name) {
            return Some(*known);
        }
        if self.numbers.len() >= MOST {
            name = OTHERS;
            if let Some(known) = self.numbers.get(name) {
                return Some(*known);
            }
        }
        let id = self.newest.fetch_add(1, Ordering::Relaxed) + 1;
        let text = String::from_utf8_lossy(name);
        let length = (text.len() as u32).to_le_bytes();
        let parts: [&[u8]; 3] = [&id.to_le_bytes(), &length, text.as_bytes()];
        writer.definition(DefKind::RANGE, &parts).ok()?;
        self.numbers.insert(name.into(), id);
        Some(id)
    }
}

//! Who holds memory, by the same numbers for all ranks.

use rustc_hash::FxHashMap;
use serde::Serialize;

/// What holds memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Of {
    /// A line of code, by its tensors.
    Line,
    /// What tensors are for.
    Category,
    /// A module of PyTorch's, by its tensors.
    Module,
    /// A line, by what it had PyTorch's allocator take from the driver.
    Pool,
    /// A line or library, by what it had the driver allocate otherwise.
    Outside,
}

/// Who holds memory, of all ranks: each has a number.
#[derive(Debug, Default)]
pub struct Keys {
    numbers: FxHashMap<(Of, String), u32>,
    names: Vec<(Of, String)>,
}

impl Keys {
    pub(super) fn number(&mut self, of: Of, name: String) -> u32 {
        let next = self.names.len() as u32;
        *self.numbers.entry((of, name)).or_insert_with_key(|key| {
            self.names.push(key.clone());
            next
        })
    }

    /// What a number stands for.
    pub fn name(&self, number: u32) -> Option<(Of, &str)> {
        self.names
            .get(number as usize)
            .map(|(of, name)| (*of, name.as_str()))
    }
}

/// Bytes of one holder, by its number in [`Keys`].
pub type Held = (u32, u64);

//! Holders of memory, numbered alike for all ranks.

use std::path::Path;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use schemars::JsonSchema;
use serde::Serialize;

use crate::attribution::Owner;
use crate::names::Names;

/// A text that many ranks share.
pub type Text = Arc<str>;

/// Kind of a holder of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Of {
    /// A source line, with the tensors that it allocated.
    Line,
    /// A category, with its tensors.
    Category,
    /// A `torch.nn.Module`, with its tensors.
    Module,
    /// A source line, with the memory that PyTorch's allocator reserved from the driver on its behalf.
    Pool,
    /// A source line, with the memory that NCCL allocated from the driver.
    Nccl,
    /// A source line, with symmetric memory and NVSHMEM's heap.
    Symmetric,
    /// A source line or library, with other driver memory; or all contexts, kernels and rounding to whole pages.
    Outside,
}

/// A source line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Path of the file. A relative path is joined to the directory in which the process started.
    pub file: String,
    /// Line number, from 1.
    pub line: u32,
}

impl Place {
    pub(super) fn of(owner: &Owner, names: &Names) -> Option<Self> {
        let line = owner.line()?;
        let file = match names.directory() {
            // The source of a notebook's cell or of standard input is not a file.
            _ if line.file.starts_with('<') => line.file.to_string(),
            Some(directory) => Path::new(directory).join(&*line.file).display().to_string(),
            None => line.file.to_string(),
        };
        let line = line.line;
        Some(Self { file, line })
    }
}

/// The holders of all ranks, each with a number.
#[derive(Debug, Default)]
pub struct Keys {
    numbers: FxHashMap<(Of, String), u32>,
    names: Vec<(Of, String)>,
    places: FxHashMap<u32, Place>,
    texts: FxHashSet<Text>,
}

impl Keys {
    /// The number of a holder.
    pub fn number(&mut self, of: Of, name: String) -> u32 {
        let next = self.names.len() as u32;
        *self.numbers.entry((of, name)).or_insert_with_key(|key| {
            self.names.push(key.clone());
            next
        })
    }

    /// Stores the place of a holder.
    pub(super) fn place(&mut self, number: u32, place: impl FnOnce() -> Option<Place>) {
        if !self.places.contains_key(&number)
            && let Some(place) = place()
        {
            self.places.insert(number, place);
        }
    }

    /// The source line of a holder; `None` if it is not a line.
    pub fn place_of(&self, number: u32) -> Option<&Place> {
        self.places.get(&number)
    }

    /// One copy of a text for all ranks that have it.
    pub(super) fn text(&mut self, text: String) -> Text {
        if let Some(known) = self.texts.get(&*text) {
            return Arc::clone(known);
        }
        let text: Text = text.into();
        self.texts.insert(Arc::clone(&text));
        text
    }

    /// The kind and name of a holder.
    pub fn name(&self, number: u32) -> Option<(Of, &str)> {
        self.names
            .get(number as usize)
            .map(|(of, name)| (*of, name.as_str()))
    }
}

/// Bytes of one holder, by its number in [`Keys`].
pub type Held = (u32, u64);

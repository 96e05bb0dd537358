//! The libraries that requested memory from the driver.

use gpumem_capture::Level;
use rustc_hash::FxHashMap;

use crate::attribution::library;
use crate::replay::{Replay, StackKey};
use crate::views::PastBlocks;

/// Libraries by number, and the library of each stack.
#[derive(Debug, Default)]
pub(super) struct Libraries {
    names: Vec<String>,
    of: FxHashMap<(Level, StackKey), Option<usize>>,
}

impl Libraries {
    /// The libraries of all blocks except tensors.
    pub fn of(replay: &Replay, blocks: &PastBlocks) -> Self {
        let mut out = Self::default();
        let levels = blocks.levels.iter();
        for of in levels.filter(|of| of.level != Level::TENSOR) {
            for block in &of.blocks {
                let names = &mut out.names;
                out.of.entry((of.level, block.stacks)).or_insert_with(|| {
                    let name = library(&replay.names, block.stacks, of.level)?;
                    let place = names.iter().position(|known| *known == name);
                    Some(place.unwrap_or_else(|| {
                        names.push(name);
                        names.len() - 1
                    }))
                });
            }
        }
        out
    }

    /// The names.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The number of a stack's library; `None` if it is not known.
    pub fn number(&self, level: Level, stacks: StackKey) -> Option<usize> {
        self.of.get(&(level, stacks)).copied().flatten()
    }

    /// Its name.
    pub fn name(&self, level: Level, stacks: StackKey) -> Option<&str> {
        let number = self.number(level, stacks)?;
        self.names.get(number).map(String::as_str)
    }
}

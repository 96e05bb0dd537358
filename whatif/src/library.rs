//! The addresses of the library of PyTorch's allocator in a recorded process.

use gpumem_capture::{Definition, ModuleId};
use rustc_hash::FxHashMap;

/// The library's address ranges.
#[derive(Debug, Default)]
pub(crate) struct AllocatorLibrary(FxHashMap<ModuleId, (u64, u64)>);

impl AllocatorLibrary {
    pub(crate) fn define(&mut self, definition: &Definition) {
        match definition {
            Definition::Module {
                id,
                start,
                end,
                path,
                ..
            } if path
                .rsplit('/')
                .next()
                .is_some_and(|name| name.starts_with("libc10_cuda")) =>
            {
                self.0.insert(*id, (*start, *end));
            }
            Definition::ModuleEnd { id } => drop(self.0.remove(id)),
            _ => {}
        }
    }

    /// Whether an address is in the library.
    pub(crate) fn has(&self, address: u64) -> bool {
        let mut ranges = self.0.values();
        ranges.any(|(start, end)| (*start..*end).contains(&address))
    }
}

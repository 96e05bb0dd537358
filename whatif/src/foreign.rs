//! What is on a card beside PyTorch's pool: contexts, code, other libraries' memory, other processes.

use gpumem_capture::{CounterValues, Definition, DeviceOrdinal, Event, EventKind, Level, ModuleId};
use rustc_hash::FxHashMap;

/// One device's.
#[derive(Debug)]
pub(crate) struct Foreign {
    device: DeviceOrdinal,
    /// Where the allocator's library lies.
    libraries: FxHashMap<ModuleId, (u64, u64)>,
    /// Driver allocations of the pool: segments, and handles of expandable ones.
    pool: FxHashMap<u64, u64>,
    pool_bytes: u64,
    physical: CounterValues,
    others: u64,
}

impl Foreign {
    pub(crate) fn new(device: DeviceOrdinal) -> Self {
        Self {
            device,
            libraries: FxHashMap::default(),
            pool: FxHashMap::default(),
            pool_bytes: 0,
            physical: CounterValues::default(),
            others: 0,
        }
    }

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
                self.libraries.insert(*id, (*start, *end));
            }
            Definition::ModuleEnd { id } => drop(self.libraries.remove(id)),
            _ => {}
        }
    }

    pub(crate) fn see(&mut self, event: &Event) {
        if event.device != self.device {
            return;
        }
        match (event.level, event.kind) {
            (Level::PHYSICAL, _) => drop(self.physical.apply(event)),
            (Level::DRIVER, EventKind::ALLOC) => {
                let mut libraries = self.libraries.values();
                if libraries.any(|(start, end)| (*start..*end).contains(&event.aux)) {
                    self.pool.insert(event.ptr, event.bytes);
                    self.pool_bytes += event.bytes;
                }
            }
            (Level::DRIVER, EventKind::FREE) => {
                let bytes = self.pool.remove(&event.ptr).unwrap_or(0);
                self.pool_bytes -= bytes;
            }
            (_, EventKind::SAMPLE) if event.aux != u64::MAX => self.others = event.aux,
            _ => {}
        }
    }

    /// What is there now.
    pub(crate) fn bytes(&self) -> u64 {
        self.physical.live.saturating_sub(self.pool_bytes) + self.others
    }
}

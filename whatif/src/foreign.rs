//! The memory on a card outside PyTorch's pool: contexts, code, other libraries' memory, other processes.

use gpumem_capture::{CounterValues, Definition, DeviceOrdinal, Event, EventKind, Level};
use rustc_hash::FxHashMap;

use crate::library::AllocatorLibrary;
use crate::survey::{Code, Survey};

/// The memory of one device.
#[derive(Debug)]
pub(crate) struct Foreign {
    device: DeviceOrdinal,
    library: AllocatorLibrary,
    /// Driver allocations of the pool: segments, and handles of expandable ones.
    pool: FxHashMap<u64, u64>,
    pool_bytes: u64,
    physical: CounterValues,
    others: u64,
    /// Code, by the event at which it was loaded, the last first.
    code: Vec<Code>,
    /// Code that is loaded but not yet in `physical`: the event at which it is read, and its bytes.
    unread: Vec<(u64, u64)>,
}

impl Foreign {
    pub(crate) fn new(device: DeviceOrdinal, survey: &Survey) -> Self {
        Self {
            device,
            library: AllocatorLibrary::default(),
            pool: FxHashMap::default(),
            pool_bytes: 0,
            physical: CounterValues::default(),
            others: 0,
            code: survey.code.iter().rev().copied().collect(),
            unread: Vec::new(),
        }
    }

    pub(crate) fn define(&mut self, definition: &Definition) {
        self.library.define(definition);
    }

    pub(crate) fn see(&mut self, seq: u64, event: &Event) {
        while let Some(code) = self.code.pop_if(|code| code.from <= seq) {
            self.unread.push((code.to, code.bytes));
        }
        self.unread.retain(|(to, _)| *to > seq);
        if event.device != self.device {
            return;
        }
        match (event.level, event.kind) {
            (Level::PHYSICAL, _) => drop(self.physical.apply(event)),
            (Level::DRIVER, EventKind::ALLOC) if self.library.has(event.aux) => {
                self.pool.insert(event.ptr, event.bytes);
                self.pool_bytes += event.bytes;
            }
            (Level::DRIVER, EventKind::FREE) => {
                let bytes = self.pool.remove(&event.ptr).unwrap_or(0);
                self.pool_bytes -= bytes;
            }
            (_, EventKind::SAMPLE) if event.aux != u64::MAX => self.others = event.aux,
            _ => {}
        }
    }

    /// Its current bytes.
    pub(crate) fn bytes(&self) -> u64 {
        let unread: u64 = self.unread.iter().map(|(_, bytes)| bytes).sum();
        self.physical.live.saturating_sub(self.pool_bytes) + self.others + unread
    }
}

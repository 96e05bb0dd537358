//! Physical handles, and where they are mapped or bound.

use gpumem_capture::{DeviceOrdinal, Event, EventKind, Level};

use super::origin::Origin;

/// A physical handle.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Handle {
    pub(crate) level: Level,
    pub(crate) device: DeviceOrdinal,
    /// Made by another process or API: its bytes are counted there.
    pub(crate) is_alias: bool,
    pub(crate) references: u32,
    pub(crate) mappings: u32,
}

/// A mapping of a handle.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mapping {
    pub(crate) bytes: u64,
    pub(crate) handle: u64,
}

/// The place of a binding: multicast object, device, offset in the object.
pub(crate) type Binding = (u64, u8, u64);

impl Mapping {
    pub(crate) fn event(
        &self,
        kind: EventKind,
        at: u64,
        device: DeviceOrdinal,
        origin: Origin,
    ) -> Event {
        Event {
            ptr: at,
            bytes: self.bytes,
            aux: self.handle,
            device,
            ..origin.event(kind, Level::DRIVER)
        }
    }
}

impl Handle {
    /// A handle with one reference.
    pub(crate) fn new(level: Level, device: DeviceOrdinal, is_alias: bool) -> Self {
        Self {
            level,
            device,
            is_alias,
            references: 1,
            mappings: 0,
        }
    }

    pub(crate) fn event(&self, kind: EventKind, handle: u64, origin: Origin) -> Event {
        Event {
            ptr: handle,
            device: self.device,
            ..origin.event(kind, self.level)
        }
    }
}

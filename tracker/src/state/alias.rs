//! Memory of another process, device or API that this process can access.

use gpumem_capture::{DeviceOrdinal, Event, EventFlags, EventKind, Level};

use super::origin::Origin;

/// Memory of another process, device or API.
#[derive(Clone, Copy, Debug, Default)]
pub struct Alias {
    /// Its size; 0 if unknown.
    pub bytes: u64,
    /// Its device.
    pub device: DeviceOrdinal,
    /// The context in which it was opened; 0 for pools and memory from them, which belong to no
    /// context.
    pub context: u64,
    /// Its kind.
    pub flags: EventFlags,
}

/// An open alias.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opened {
    pub(crate) alias: Alias,
    /// The number of openings that have not been closed.
    pub(crate) times: u32,
}

impl Alias {
    pub(crate) fn event(&self, kind: EventKind, ptr: u64, origin: Origin) -> Event {
        Event {
            ptr,
            bytes: self.bytes,
            device: self.device,
            flags: self.flags,
            ..origin.event(kind, Level::DRIVER)
        }
    }
}

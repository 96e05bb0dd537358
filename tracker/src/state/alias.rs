//! Memory of another process, device or API that this process can reach.

use gpumem_capture::{DeviceOrdinal, Event, EventFlags, EventKind, Level};

use super::origin::Origin;

/// What is reached.
#[derive(Clone, Copy, Debug, Default)]
pub struct Alias {
    /// How large it is; 0: not known.
    pub bytes: u64,
    /// Where it is.
    pub device: DeviceOrdinal,
    /// The context that it was opened in; 0: it belongs to none, as pools and what comes from them.
    pub context: u64,
    /// Of which kind it is.
    pub flags: EventFlags,
}

/// One that is open.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opened {
    pub(crate) alias: Alias,
    /// How often it was opened and not closed.
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

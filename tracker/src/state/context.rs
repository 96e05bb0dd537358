//! Contexts, and their ends.

use gpumem_capture::DeviceOrdinal;

/// A context that was made or seen in use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context {
    pub(crate) device: DeviceOrdinal,
    pub(crate) state: ContextState,
    /// Whether a call of the program's made it; else it is the primary one of its device.
    pub(crate) is_created: bool,
    /// Holds on it beyond its creation.
    pub(crate) attached: u32,
}

/// What is known of a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContextState {
    Live,
    /// A call that ends it is in progress.
    Ending,
    /// A primary one that has ended: its next use brings it back, perhaps unseen.
    Inactive,
}

/// The end of a context.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ending {
    /// 0: the primary one.
    pub(crate) context: u64,
    pub(crate) device: DeviceOrdinal,
    /// Whether the device has no other: what belongs to it alone ends too (pools, physical handles).
    pub(crate) is_last: bool,
}

impl Context {
    pub(crate) fn is_live(&self) -> bool {
        self.state == ContextState::Live
    }
}

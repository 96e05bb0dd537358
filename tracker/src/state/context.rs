//! Contexts, and their ends.

use gpumem_capture::DeviceOrdinal;

/// A context that was created or seen in use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context {
    pub(crate) device: DeviceOrdinal,
    pub(crate) state: ContextState,
    /// Whether a call of the program created it; otherwise it is the primary context of its device.
    pub(crate) is_created: bool,
    /// References to it beyond its creation.
    pub(crate) attached: u32,
}

/// The known state of a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContextState {
    Live,
    /// A call that ends it is in progress.
    Ending,
    /// A primary context that has ended: its next use activates it, perhaps without being noticed.
    Inactive,
}

/// The end of a context.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ending {
    /// 0 for the primary context.
    pub(crate) context: u64,
    pub(crate) device: DeviceOrdinal,
    /// Whether it is the device's last context: then what belongs only to the device ends too
    /// (pools, physical handles).
    pub(crate) is_last: bool,
}

impl Context {
    pub(crate) fn is_live(&self) -> bool {
        self.state == ContextState::Live
    }
}

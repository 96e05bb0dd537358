//! An allocation that failed because of insufficient memory.

use gpumem_capture::{ApiId, DeviceOrdinal, EventFlags, Level};

/// An allocation that failed.
#[derive(Clone, Copy)]
pub(crate) struct Failed {
    pub(crate) api: ApiId,
    pub(crate) level: Level,
    pub(crate) device: DeviceOrdinal,
    /// Requested bytes.
    pub(crate) bytes: u64,
    /// For a tensor: the live bytes and the reserved bytes that the framework reports.
    pub(crate) framework: Option<(u64, u64)>,
    /// The return address in the caller; 0 if unknown.
    pub(crate) caller: u64,
    /// Its purpose, if it is not a block: [`EventFlags::CONTEXT`] or [`EventFlags::MODULE`].
    pub(crate) of: EventFlags,
    /// Whether the program queried the text of the error: by then it has received the error.
    pub(crate) is_told: bool,
}

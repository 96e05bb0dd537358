//! An allocation that failed for want of memory.

use gpumem_capture::{ApiId, DeviceOrdinal, EventFlags, Level};

/// An allocation that failed.
#[derive(Clone, Copy)]
pub(crate) struct Failed {
    pub(crate) api: ApiId,
    pub(crate) level: Level,
    pub(crate) device: DeviceOrdinal,
    /// Bytes that were asked for.
    pub(crate) bytes: u64,
    /// Of a tensor: what the framework says is live, and what it holds from the driver.
    pub(crate) framework: Option<(u64, u64)>,
    /// The address in the code of whoever called; 0: not known.
    pub(crate) caller: u64,
    /// What it was for, where that is no block: [`EventFlags::CONTEXT`] or [`EventFlags::MODULE`].
    pub(crate) of: EventFlags,
    /// Whether the program asked what the error means: by then it has it.
    pub(crate) is_told: bool,
}

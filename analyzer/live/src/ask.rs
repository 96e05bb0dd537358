//! What a frame is to show.

use gpumem_capture::{DeviceOrdinal, Level};

/// What the rows of the table are of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// Lines of code.
    #[default]
    Line,
    /// What tensors are for.
    Category,
    /// Modules of PyTorch's.
    Module,
}

/// Of when the table is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Moment {
    /// What is live.
    #[default]
    Now,
    /// The level's peak so far, of each device.
    Peak,
}

/// What the table of a frame is to have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ask {
    /// The level; `None`: the one that tells most.
    pub level: Option<Level>,
    /// Only this device.
    pub device: Option<DeviceOrdinal>,
    /// What its rows are of.
    pub by: By,
    /// Of when.
    pub moment: Moment,
}

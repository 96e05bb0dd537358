//! The options of ledgers.

use gpumem_capture::{DeviceOrdinal, Level, Seq};

/// The point in time of a ledger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LedgerAt {
    /// The peak of each device: see [`crate::replay::DevicePeak`].
    #[default]
    Peak,
    /// The peak of one level of each device.
    PeakOf(Level),
    /// After the last event.
    End,
    /// Just after this event.
    At(Seq),
}

/// How the rows are grouped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// By kind.
    #[default]
    Kind,
    /// By the library that the memory belongs to.
    Owner,
    /// By the line that caused it.
    Line,
}

/// The options.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asked {
    /// The point in time.
    pub at: LedgerAt,
    /// How the rows are grouped.
    pub by: By,
    /// Only this device.
    pub device: Option<DeviceOrdinal>,
}

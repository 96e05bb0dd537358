//! Which ledgers are asked for.

use gpumem_capture::{DeviceOrdinal, Level, Seq};

/// The moment of a ledger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LedgerAt {
    /// Each device's own: see [`crate::replay::DevicePeak`].
    #[default]
    Peak,
    /// The peak of one level of each device.
    PeakOf(Level),
    /// After the last event.
    End,
    /// Just after this event.
    At(Seq),
}

/// How the rows are put together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// By what they are.
    #[default]
    Kind,
    /// By the library that the memory belongs to.
    Owner,
    /// By the line that led to it.
    Line,
}

/// Which ledgers, and how.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asked {
    /// When.
    pub at: LedgerAt,
    /// How the rows are put together.
    pub by: By,
    /// Only this device.
    pub device: Option<DeviceOrdinal>,
}

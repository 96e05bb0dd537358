//! The content of a frame that a reader requests.

use gpumem_analyzer::replay::At;
use gpumem_capture::{DeviceOrdinal, Level, Nanos, Seq};

/// The grouping of the table's rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// Lines of code.
    #[default]
    Line,
    /// Categories of tensors.
    Category,
    /// PyTorch modules.
    Module,
}

/// The point in time of the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Moment {
    /// Live memory.
    #[default]
    Now,
    /// The level's peak so far, of each device.
    Peak,
}

/// The figure that sorts the rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// The bytes that they hold.
    #[default]
    Bytes,
    /// The bytes that they held at the level's peak.
    Peak,
    /// Their growth per step.
    Growth,
    /// Their rate of allocations.
    Rate,
}

/// A past point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// Just after this event.
    Event(Seq),
    /// Just before the first event after this time.
    Time(Nanos),
}

impl Then {
    /// Whether an event came later.
    pub(crate) fn is_before(self, seq: Seq, time: Nanos) -> bool {
        match self {
            Self::Event(last) => seq > last,
            Self::Time(last) => time > last,
        }
    }
}

impl From<Then> for At {
    fn from(then: Then) -> Self {
        match then {
            Then::Event(seq) => Self::Event(seq),
            Then::Time(time) => Self::Time(time),
        }
    }
}

/// The requested table of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ask {
    /// The level; `None`: the one with the most detail.
    pub level: Option<Level>,
    /// Only this device.
    pub device: Option<DeviceOrdinal>,
    /// The grouping of its rows.
    pub by: By,
    /// The point in time.
    pub moment: Moment,
    /// The second figure of its rows.
    pub order: Order,
}

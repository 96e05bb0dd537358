//! What a frame is to show.

use gpumem_analyzer::replay::At;
use gpumem_capture::{DeviceOrdinal, Level, Nanos, Seq};

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

/// By which figure rows are put in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// What they hold.
    #[default]
    Bytes,
    /// What they held at the level's peak.
    Peak,
    /// By how much they grow in a step.
    Growth,
    /// How often they allocate.
    Rate,
}

/// A moment that has passed.
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
    /// The figure that its rows have beside what they hold.
    pub order: Order,
}

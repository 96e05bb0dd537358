//! The query of a replay: which figures it keeps.

use gpumem_capture::{Nanos, Seq};

/// The point in time of figures by stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum At {
    /// Each level's own peak.
    #[default]
    Peak,
    /// After the last event.
    End,
    /// Just after this event.
    Event(Seq),
    /// Just before the first event after this time.
    Time(Nanos),
    /// Just after the failure to show first: see [`crate::Failures::main`]. A replay does not find it: the reader of
    /// the capture looks it up first.
    Failure,
    /// At the end of this step of a training, counted from 1.
    Step(u64),
}

/// The figures by stack that a replay keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// The point in time. With a step, the peak is that of the step's allocations.
    pub moment: At,
    /// Count only what was allocated in this step.
    pub step: Option<u64>,
    /// Whether each device's peak is kept, block by block: see [`crate::Replay::at_peak_of`].
    pub peaks: bool,
    /// Count only blocks of these sizes.
    pub sizes: Sizes,
    /// Whether to skip the categories of tensors and the phase before the forward of a step, which takes less time.
    /// Stacks and all other figures are the same.
    pub no_categories: bool,
}

/// A range of block sizes, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// The smallest.
    pub least: u64,
    /// The largest.
    pub most: u64,
}

impl Default for Sizes {
    fn default() -> Self {
        Self {
            least: 0,
            most: u64::MAX,
        }
    }
}

impl Sizes {
    /// No sizes.
    pub const NONE: Self = Self {
        least: u64::MAX,
        most: 0,
    };

    /// Whether it contains all sizes.
    pub fn are_all(&self) -> bool {
        *self == Self::default()
    }

    /// Whether it contains this size.
    pub fn take(&self, bytes: u64) -> bool {
        (self.least..=self.most).contains(&bytes)
    }
}

impl Query {
    /// Keeps no figures by stack: [`crate::Replay::counted_figures`] computes them on request.
    pub fn without_figures() -> Self {
        Self {
            moment: At::End,
            sizes: Sizes::NONE,
            ..Self::default()
        }
    }

    /// Keeps each device's peak.
    pub fn keeping_peaks() -> Self {
        Self {
            peaks: true,
            ..Self::default()
        }
    }
}

impl From<At> for Query {
    fn from(moment: At) -> Self {
        Self {
            moment,
            ..Self::default()
        }
    }
}

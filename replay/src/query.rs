//! What a replay is asked for.

use gpumem_capture::{Nanos, Seq};

/// The moment of figures by stack.
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
    /// Just after the failure to tell of first: see [`crate::Failures::main`]. A replay does not know which that is: whoever
    /// reads the capture finds it first.
    Failure,
    /// When this step of a training, counted from 1, had ended.
    Step(u64),
}

/// Which figures by stack a replay computes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// When. With a step, the peak is that of what the step allocated.
    pub moment: At,
    /// Only of what was allocated in this step.
    pub step: Option<u64>,
    /// Whether what each device's peak had is kept, block by block: see [`crate::Replay::at_peak_of`].
    pub peaks: bool,
    /// Only of blocks of these sizes.
    pub sizes: Sizes,
    /// Whether tensors stand under no [`crate::Category`], and stacks under no place before the forward. That takes less
    /// time. The stacks themselves and all other figures are the same.
    pub no_categories: bool,
}

/// Sizes of blocks, both ends included.
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
    /// None at all.
    pub const NONE: Self = Self {
        least: u64::MAX,
        most: 0,
    };

    /// Whether every size is one of them.
    pub fn are_all(&self) -> bool {
        *self == Self::default()
    }

    /// Whether this is one of them.
    pub fn take(&self, bytes: u64) -> bool {
        (self.least..=self.most).contains(&bytes)
    }
}

impl Query {
    /// No figures by stack are followed: [`crate::Replay::live_figures`] counts them where they are asked for.
    pub fn without_figures() -> Self {
        Self {
            moment: At::End,
            sizes: Sizes::NONE,
            ..Self::default()
        }
    }

    /// What each device's peak had is kept.
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

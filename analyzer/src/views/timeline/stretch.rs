//! A part of a run.

use gpumem_capture::{Nanos, Seq};

/// An event, and a time at or after it and before the next event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// The last event.
    pub seq: Seq,
    /// The time.
    pub time: Nanos,
}

/// From one point in time to another; the whole run by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stretch {
    /// The start, including the state then; `None` for the start of the run.
    pub from: Option<Moment>,
    /// The end; `None` for the end of the run.
    pub to: Option<Moment>,
}

impl Stretch {
    /// Whether it is the whole run.
    pub fn is_whole(&self) -> bool {
        *self == Self::default()
    }

    /// Whether an event is in it.
    pub(in crate::views) fn has(&self, seq: Seq) -> bool {
        !self.is_before(seq) && !self.is_after(seq)
    }

    /// Whether a block that was allocated and possibly freed by these events is live at any time in it.
    pub(in crate::views) fn has_block(&self, made: Seq, ended: Option<Seq>) -> bool {
        !self.is_after(made) && ended.is_none_or(|ended| !self.is_before(ended))
    }

    /// Whether an event is before it.
    pub(in crate::views) fn is_before(&self, seq: Seq) -> bool {
        self.from.is_some_and(|from| seq <= from.seq)
    }

    /// Whether an event is after it.
    pub(in crate::views) fn is_after(&self, seq: Seq) -> bool {
        self.to.is_some_and(|to| seq > to.seq)
    }
}

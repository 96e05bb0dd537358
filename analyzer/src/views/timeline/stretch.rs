//! A part of a run.

use gpumem_capture::{Nanos, Seq};

/// An event and a time at or after it, before the next one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// The last event that has happened.
    pub seq: Seq,
    /// When it is.
    pub time: Nanos,
}

/// From one moment to another; all of the run by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stretch {
    /// Where it begins, with what there is then; `None`: with the run.
    pub from: Option<Moment>,
    /// Where it ends; `None`: with the run.
    pub to: Option<Moment>,
}

impl Stretch {
    /// Whether it is all of the run.
    pub fn is_whole(&self) -> bool {
        *self == Self::default()
    }

    /// Whether an event is in it.
    pub(in crate::views) fn has(&self, seq: Seq) -> bool {
        !self.is_before(seq) && !self.is_after(seq)
    }

    /// Whether a block that was allocated by one event, and freed by another if it was, is live at some moment of it.
    pub(in crate::views) fn has_block(&self, made: Seq, ended: Option<Seq>) -> bool {
        !self.is_after(made) && ended.is_none_or(|ended| !self.is_before(ended))
    }

    /// Whether an event comes before it.
    pub(in crate::views) fn is_before(&self, seq: Seq) -> bool {
        self.from.is_some_and(|from| seq <= from.seq)
    }

    /// Whether an event comes after it.
    pub(in crate::views) fn is_after(&self, seq: Seq) -> bool {
        self.to.is_some_and(|to| seq > to.seq)
    }
}

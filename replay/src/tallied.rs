//! What counts for the figures by stack.

use gpumem_capture::Seq;

use crate::{Moment, Wanted};

/// Blocks count if they were made by events from one to another, and what happens to them up to a third.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tallied {
    /// The step whose blocks alone count.
    pub step: Option<u64>,
    from: Seq,
    to: Seq,
    until: Seq,
}

const NEVER: Seq = Seq(u64::MAX);

impl Default for Tallied {
    fn default() -> Self {
        Self::new(Wanted::default())
    }
}

impl Tallied {
    /// What is wanted.
    pub fn new(wanted: Wanted) -> Self {
        Self {
            step: wanted.step,
            from: match wanted.step {
                None | Some(1) => Seq(0),
                Some(_) => NEVER,
            },
            to: NEVER,
            until: match wanted.moment {
                Moment::At(seq) => seq,
                Moment::Peak | Moment::End => NEVER,
            },
        }
    }

    /// A mark at `seq`, after which `ended` steps have ended, may begin the wanted step or end it.
    pub fn follow(&mut self, ended: u64, seq: Seq) {
        let Some(step) = self.step else { return };
        let now = ended.saturating_add(1);
        let begun = self.from != NEVER;
        if now == step && !begun {
            self.from = seq;
        } else if now > step && begun {
            self.to = self.to.min(seq);
        }
    }

    /// Whether what happens at an event still counts.
    pub fn at(&self, seq: Seq) -> bool {
        seq <= self.until
    }

    /// Whether blocks that this event made count.
    pub fn made(&self, by: Seq) -> bool {
        self.from <= by && by <= self.to
    }
}

//! Which blocks count for the figures by stack, and until when.

use gpumem_capture::{Nanos, Seq};

use crate::query::{At, Query, Sizes};

/// Blocks count if they were made by events from one to another, and what happens to them up to a third.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    /// The step whose blocks alone count.
    pub step: Option<u64>,
    from: Seq,
    to: Seq,
    until: Seq,
    ends: Ends,
    sizes: Sizes,
}

/// What the moment waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ends {
    /// It has come, or is known by its number.
    Known,
    /// An event after this time.
    Time(Nanos),
    /// The end of this step.
    Step(u64),
}

const NEVER: Seq = Seq(u64::MAX);

impl Default for Window {
    fn default() -> Self {
        Self::new(Query::default())
    }
}

impl Window {
    /// The window of a query.
    pub fn new(query: Query) -> Self {
        Self {
            step: query.step,
            from: match query.step {
                None | Some(1) => Seq(0),
                Some(_) => NEVER,
            },
            to: NEVER,
            until: match query.moment {
                At::Event(seq) => seq,
                _ => NEVER,
            },
            ends: match query.moment {
                At::Time(time) => Ends::Time(time),
                At::Step(step) => Ends::Step(step),
                At::Peak | At::End | At::Event(_) | At::Failure => Ends::Known,
            },
            sizes: query.sizes,
        }
    }

    /// A mark at `seq`, after which `ended` steps have ended, may begin the queried step or end it.
    pub fn follow(&mut self, ended: u64, seq: Seq) {
        if matches!(self.ends, Ends::Step(step) if ended >= step) {
            self.end(seq);
        }
        let Some(step) = self.step else { return };
        let now = ended.saturating_add(1);
        let begun = self.from != NEVER;
        if now == step && !begun {
            self.from = seq;
        } else if now > step && begun {
            self.to = self.to.min(seq);
        }
    }

    /// An event comes, which may be the first after the queried time.
    #[inline]
    pub fn pass(&mut self, seq: Seq, time: Nanos) {
        if matches!(self.ends, Ends::Time(limit) if time > limit) {
            self.end(Seq(seq.0.saturating_sub(1)));
        }
    }

    fn end(&mut self, seq: Seq) {
        self.ends = Ends::Known;
        self.until = seq;
    }

    /// The last event that counts, if that is known and not simply the last one.
    pub fn until(&self) -> Option<Seq> {
        (self.until != NEVER).then_some(self.until)
    }

    /// Whether what happens at an event still counts.
    pub fn at(&self, seq: Seq) -> bool {
        seq <= self.until
    }

    /// Whether a block counts that this event made.
    pub fn made(&self, by: Seq, bytes: u64) -> bool {
        self.from <= by && by <= self.to && self.sizes.take(bytes)
    }

    /// Whether no block counts.
    pub fn counts_none(&self) -> bool {
        self.sizes == Sizes::NONE
    }

    /// Whether blocks of all sizes count.
    pub fn all_sizes(&self) -> bool {
        self.sizes.are_all()
    }
}

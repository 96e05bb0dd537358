//! Which blocks count for the figures by stack, and until when.

use gpumem_capture::{Nanos, Seq};

use crate::query::{At, Query, Sizes};

/// Blocks count if they were allocated by events in a range; what happens to them counts up to a third event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    /// Only blocks of this step count.
    pub step: Option<u64>,
    from: Seq,
    to: Seq,
    until: Seq,
    ends: Ends,
    sizes: Sizes,
}

/// What decides the point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ends {
    /// It has come, or its event's number is known.
    Known,
    /// The first event after this time.
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

    /// Takes in a mark at `seq`, after which `ended` steps have ended. It may begin or end the queried step.
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

    /// Takes in an event, which may be the first after the queried time.
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

    /// The last event that counts, if that is known and not the capture's last event.
    pub fn until(&self) -> Option<Seq> {
        (self.until != NEVER).then_some(self.until)
    }

    /// Whether an event still counts.
    pub fn at(&self, seq: Seq) -> bool {
        seq <= self.until
    }

    /// Whether a block that this event allocated counts.
    pub fn made(&self, by: Seq, bytes: u64) -> bool {
        self.from <= by && by <= self.to && self.sizes.take(bytes)
    }

    /// Whether blocks of all sizes count.
    pub fn all_sizes(&self) -> bool {
        self.sizes.are_all()
    }
}

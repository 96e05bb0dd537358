//! The position of reading in the order of sequence numbers, and what is missing so far.

use super::integrity::{self, Damage, Integrity, Record};
use crate::{DefKind, Event, Seq};

pub(super) struct Cursor<'a> {
    sink: &'a mut dyn FnMut(Record<'_>),
    pub(super) integrity: Integrity,
    /// The sequence number that comes next if nothing is missing.
    pub(super) expected: u64,
    /// The end of the records that came from the ring and may be in pages by now.
    pub(super) ahead: u64,
    /// The damage entry that still looks for the next good record.
    open: Option<usize>,
}

/// A cursor's position, without its sink.
#[derive(Default)]
pub(super) struct Stand {
    integrity: Integrity,
    expected: u64,
    ahead: u64,
    open: Option<usize>,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(sink: &'a mut dyn FnMut(Record<'_>)) -> Self {
        Self::at(sink, Stand::default())
    }

    pub(super) fn at(sink: &'a mut dyn FnMut(Record<'_>), stand: Stand) -> Self {
        let Stand {
            integrity,
            expected,
            ahead,
            open,
        } = stand;
        Self {
            sink,
            integrity,
            expected,
            ahead,
            open,
        }
    }

    pub(super) fn stand(self) -> Stand {
        Stand {
            integrity: self.integrity,
            expected: self.expected,
            ahead: self.ahead,
            open: self.open,
        }
    }

    /// Whether records from `first` on may have come from the ring already.
    pub(super) fn may_have_given(&self, first: u64) -> bool {
        first < self.ahead
    }

    /// Restarts, because a state replaces all records so far.
    pub(super) fn restart(&mut self) {
        (self.expected, self.ahead, self.open) = (0, 0, None);
        (self.integrity.events, self.integrity.definitions) = (0, 0);
    }

    /// Records from `expected` on may be missing because of damage at `offset`. Consecutive damage
    /// without a good record in between is one entry, the first.
    pub(super) fn bad(&mut self, offset: u64, what: impl FnOnce() -> String) {
        if self.open.is_none() {
            self.open = Some(self.integrity.damage.len());
            let first_missing = Some(Seq(self.expected));
            let damage = Damage {
                offset,
                what: what(),
                first_missing,
                next_good: None,
            };
            self.integrity.damage.push(damage);
        }
    }

    /// Good records follow from `seq` on, read from `offset`.
    pub(super) fn good(&mut self, seq: u64, offset: u64) {
        if seq > self.expected {
            self.bad(offset, || {
                "records before this place are missing".to_owned()
            });
        }
        let open = self
            .open
            .take()
            .and_then(|n| self.integrity.damage.get_mut(n));
        if let Some(damage) = open {
            if damage.first_missing.is_some_and(|first| first.0 < seq) {
                damage.next_good = Some(Seq(seq));
            } else {
                damage.first_missing = None;
            }
        }
        self.expected = seq;
    }

    /// Skips slots that were never completed.
    pub(super) fn pass(&mut self, upto: u64) {
        if self.open.is_none() {
            self.expected = self.expected.max(upto);
        }
    }

    /// Passes on a state for the records before `seq`, with its number of events and definitions.
    pub(super) fn state(&mut self, seq: u64, (events, definitions): (u64, u64), state: &[u8]) {
        self.integrity.events += events;
        self.integrity.definitions += definitions;
        self.expected = seq;
        (self.sink)(Record::State(Seq(seq), state));
    }

    pub(super) fn event(&mut self, seq: u64, event: &Event) {
        self.integrity.events += 1;
        self.expected = seq + 1;
        (self.sink)(Record::Event(Seq(seq), event));
    }

    pub(super) fn definition(&mut self, seq: u64, kind: DefKind, payload: &[u8], offset: u64) {
        self.integrity.definitions += 1;
        self.expected = seq + crate::slot::slots_for(payload.len() as u64);
        let (definition, fits) = integrity::definition(kind, payload);
        if !fits {
            let kind = kind.0;
            let what = format!("the definition of kind {kind} at record {seq} makes no sense");
            self.integrity.damaged(offset, what);
        }
        (self.sink)(Record::Definition(Seq(seq), &definition));
    }

    /// Passes on an embedded definition, which comes before all records and has no place in their
    /// order.
    pub(super) fn embedded(&mut self, kind: DefKind, payload: &[u8], offset: u64) {
        let (definition, fits) = integrity::definition(kind, payload);
        if !fits {
            let what = "an embedded name makes no sense".to_owned();
            self.integrity.damaged(offset, what);
            return;
        }
        self.integrity.symbols += 1;
        (self.sink)(Record::Definition(Seq(0), &definition));
    }

    /// Ends reading. `end` is the first sequence number that was never assigned, if known.
    pub(super) fn end(&mut self, end: Option<u64>) {
        if let Some(damage) = self
            .open
            .take()
            .and_then(|n| self.integrity.damage.get_mut(n))
            && end.is_some_and(|end| damage.first_missing.is_some_and(|first| first.0 >= end))
        {
            damage.first_missing = None;
        }
    }

    pub(super) fn finish(self) -> Integrity {
        self.integrity
    }
}

//! A snapshot of all counters at one position in the order of records: taken at the start and end of scopes, and for
//! the capture's copies of the counters.
//!
//! The rows of counters each have a separate lock, under which an event's position in the order is reserved. A thread
//! that holds the locks of all rows and reserves a position has the same figures as a replay at that position. That
//! takes some nanoseconds per row. Rows in which nothing was ever counted are skipped, and become used only while no
//! snapshot is taken.

use gpumem_sys::threads;

use super::attempt::{IfFull, assert_may_wait};
use super::error::{Ended, Lost};
use super::rows::RowSnapshot;
use super::shared::Writer;
use crate::{CounterValues, Event, Seq, layout, slot};

/// The figures of all counters at one position in the order of records.
#[derive(Debug)]
pub struct CounterSnapshot {
    /// Its position in the order of records; [`Lost::RingFull`] if there was no room for the event. The figures are
    /// still consistent.
    pub seq: Result<Seq, Lost>,
    /// Every row that counts something, in order of their numbers.
    pub rows: Vec<RowSnapshot>,
}

impl Writer {
    /// Records an event that changes no counter, and returns the figures of all devices and levels at its position in
    /// the order of records. With `anew`, [`RowSnapshot::since_snapshot`] starts again from here.
    ///
    /// Not for hooks: it may allocate, and blocks counting threads while it reads.
    ///
    /// # Errors
    /// [`Lost::OtherProcess`] in a forked child, where nothing at all happens; [`Lost::Ended`] once recording has
    /// ended.
    pub fn counter_snapshot(&self, event: &Event, anew: bool) -> Result<CounterSnapshot, Lost> {
        assert_may_wait();
        self.counter_snapshot_if_full(event, anew, IfFull::Wait)
    }

    pub(super) fn counter_snapshot_if_full(
        &self,
        event: &Event,
        anew: bool,
        if_full: IfFull,
    ) -> Result<CounterSnapshot, Lost> {
        if !self.is_own_process() {
            return Err(Lost::OtherProcess);
        }
        if CounterValues::counts(event) {
            debug_assert!(false, "the event counts");
            return Err(Lost::TooLarge);
        }
        let mut may_wait = if_full == IfFull::Wait;
        let refuses = if_full == IfFull::Refuse;
        loop {
            // All waiting is done before any lock is taken.
            if may_wait && !self.ring.has_space(1) {
                may_wait = self.backpressure.wait(&self.ring, 1, self.nudge());
            }
            let (reserved, rows) = self.through_all(anew, || match self.ring.reserve(1) {
                Some(seq) => Some(Some(seq)),
                // Other threads took the room since the check.
                None if may_wait || refuses => None,
                None => Some(None),
            })?;
            match reserved {
                None if refuses => return Err(Lost::RingFull),
                None => {}
                Some(Some(seq)) => {
                    self.ring.commit(seq, &slot::event_words(event));
                    self.wake_drain(seq, 1);
                    let seq = Ok(Seq(seq));
                    return Ok(CounterSnapshot { seq, rows });
                }
                Some(None) => {
                    let stall = self.ring.tail();
                    self.losses
                        .event(self.head, self.ring.checks(), event.time, stall);
                    let seq = Err(Lost::RingFull);
                    return Ok(CounterSnapshot { seq, rows });
                }
            }
        }
    }

    /// Calls `place` while all used rows are locked; if it returns a value, returns it with their figures.
    fn through_all<P>(
        &self,
        anew: bool,
        place: impl FnOnce() -> Option<P>,
    ) -> Result<(Option<P>, Vec<RowSnapshot>), Lost> {
        let mut rows = Vec::with_capacity(layout::COUNTER_ROWS as usize);
        let mut held = Vec::with_capacity(layout::COUNTER_ROWS as usize);
        let own = threads::own();
        let _changing = self.used.hold();
        for number in self.used.rows() {
            let Some(row) = self.rows.get(number) else {
                continue;
            };
            let Some(locked) = row.lock(own) else {
                return Err(self.abandon(Ended::HeldTooLong));
            };
            held.push((number as u8, locked));
        }
        let place = place();
        if place.is_some() {
            rows.extend(
                held.iter()
                    .map(|(row, locked)| RowSnapshot::of(*row, locked)),
            );
            if anew {
                held.iter().for_each(|(_, locked)| locked.begin_anew());
            }
        }
        Ok((place, rows))
    }

    /// The figures of all rows at a position in the order of records that is after all records so far.
    pub(super) fn counters_now(&self) -> Result<(u64, Vec<RowSnapshot>), Lost> {
        let (place, rows) = self.through_all(false, || Some(self.ring.head()))?;
        Ok((place.unwrap_or_default(), rows))
    }

    /// Stores the counters in the head, as of the position before `seq`, unless `newest` is a later position.
    pub(super) fn publish_counters(&self, newest: &mut u64, seq: u64, rows: &[RowSnapshot]) {
        if seq < *newest {
            return;
        }
        *newest = seq;
        let (checks, counted) = (self.ring.checks(), &self.head.counted.0);
        // A process that dies in between leaves rows of two positions.
        counted.clear();
        for row in rows {
            let number = u64::from(row.row);
            if let Some(copy) = self.head.row(number) {
                let place = layout::row_offset(number);
                copy.store(&row.values, row.changes, checks, place);
            }
        }
        let facts = [seq, self.stamp(), 0];
        counted.store(checks, layout::dynamic::COUNTED, facts);
    }

    /// The current values of one row; None if nothing was ever counted in it.
    pub fn row_now(&self, number: u8) -> Option<RowSnapshot> {
        let locked = self.rows.get(u64::from(number))?.lock(threads::own())?;
        (locked.changes() != 0).then(|| RowSnapshot::of(number, &locked))
    }
}

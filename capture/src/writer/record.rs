//! Recording: an event and the counters that it changes, a definition.

use super::attempt::{IfFull, assert_may_wait};
use super::error::{Ended, Lost};
use super::rows::{Change, LockedRow};
use super::shared::Writer;
use crate::{
    CounterValues, DefKind, DeviceOrdinal, Event, EventFlags, Level, Seq, ThreadId, layout, slot,
};

impl Writer {
    /// Records an event and applies it to the counters of its device and level
    /// ([`CounterValues::apply`]).
    ///
    /// Both happen under the counter row's lock, so the order of sequence numbers within a device and level is the
    /// order in which the counters changed. A replay in that order computes the same figures, including the peak.
    /// The counters change even if the event itself is lost.
    ///
    /// # Errors
    /// [`Lost::RingFull`] after a bounded wait (once per stall; ≈ 0.1 s for a file that cannot be written to, 1 s
    /// for a drain that does not get a processor): the loss is counted. [`Lost::OtherProcess`] in a forked child,
    /// where nothing happens.
    pub fn event(&self, event: &Event) -> Result<Seq, Lost> {
        self.event_to(event, None)
    }

    /// The same for an event after which `live` bytes are live at its level of its device, according to another
    /// counter. Sets [`EventFlags::MISMATCH`] if the counters differ.
    ///
    /// # Errors
    /// As [`Writer::event`].
    pub fn event_to(&self, event: &Event, live: Option<u64>) -> Result<Seq, Lost> {
        assert_may_wait();
        if !self.owner.records() {
            return Err(Lost::OtherProcess);
        }
        let counters = self.lock_counters(event.device, event.level, event.thread);
        match counters.and_then(|counters| counters.event(event, live)) {
            Some(seq) => Ok(seq),
            None => self.event_otherwise(event, live, IfFull::Wait),
        }
    }

    /// Locks the counters of a device and level for the calling thread with the id `own`. No other thread counts in them while the guard exists, about twenty
    /// nanoseconds; nothing in between may wait or fail. None for a device or level without counters.
    ///
    /// It neither panics nor checks the process ([`Writer::is_own_process`]), and is inlined into the caller: for
    /// the one place where events are frequent.
    #[inline(always)]
    pub fn lock_counters(
        &self,
        device: DeviceOrdinal,
        level: Level,
        own: ThreadId,
    ) -> Option<CounterGuard<'_>> {
        let number = layout::row_number(device, level)?;
        let row = self.rows.get(number)?.lock(own.0)?;
        // Other threads that count here wait for this lock before they access the head of the ring.
        self.ring.expect_reservation();
        Some(CounterGuard {
            writer: self,
            row,
            #[cfg(debug_assertions)]
            number,
        })
    }

    #[inline(always)]
    fn commit(&self, seq: u64, words: &[u64; 8]) {
        self.ring.commit(seq, words);
        self.wake_drain(seq, 1);
    }

    /// Records an event of any kind.
    #[cold]
    #[inline(never)]
    pub(super) fn event_otherwise(
        &self,
        event: &Event,
        live: Option<u64>,
        if_full: IfFull,
    ) -> Result<Seq, Lost> {
        let mut words = slot::event_words(event);
        let number = layout::row_number(event.device, event.level);
        let row = number
            .and_then(|number| Some((self.rows.get(number)?, number)))
            .filter(|_| CounterValues::counts(event));
        let mut may_wait = if_full == IfFull::Wait;
        let refuses = if_full == IfFull::Refuse;
        loop {
            // All waiting is done before the lock is taken.
            if may_wait && !self.ring.has_space(1) {
                may_wait = self.backpressure.wait(&self.ring, 1, self.nudge());
            }
            let reserved = match row {
                None => self.ring.reserve(1),
                Some((row, number)) => {
                    let own = event.thread.0;
                    let lock = || {
                        row.lock(own)
                            .ok_or_else(|| self.abandon(Ended::HeldTooLong))
                    };
                    let mut locked = lock()?;
                    if locked.changes() == 0 {
                        drop(locked);
                        self.used.note(number);
                        locked = lock()?;
                    }
                    let reserved = self.ring.reserve(1);
                    if reserved.is_some() || !(may_wait || refuses) {
                        let mut new = locked.values();
                        new.apply(event);
                        if live.is_some_and(|live| live != new.live) {
                            slot::add_flags(&mut words, EventFlags::MISMATCH);
                        }
                        locked.take(&new);
                    }
                    reserved
                }
            };
            match reserved {
                Some(seq) => {
                    self.commit(seq, &words);
                    return Ok(Seq(seq));
                }
                // Other threads took the room since the check.
                None if may_wait => {}
                None if refuses => return Err(Lost::RingFull),
                None => {
                    let stall = self.ring.tail();
                    self.losses
                        .event(self.head, self.ring.checks(), event.time, stall);
                    return Err(Lost::RingFull);
                }
            }
        }
    }

    /// Records a definition whose payload is the concatenation of `parts`.
    ///
    /// # Errors
    /// The errors of [`Writer::event`], and [`Lost::TooLarge`] if the payload is larger than an eighth of the ring
    /// or 1 MiB. The caller must not refer to an undefined id.
    pub fn definition(&self, kind: DefKind, parts: &[&[u8]]) -> Result<Seq, Lost> {
        assert_may_wait();
        self.definition_if_full(kind, parts, IfFull::Wait)
    }

    /// Records a fact of the process: see [`crate::ProcessKey`].
    ///
    /// # Errors
    /// Those of [`Writer::definition`].
    pub fn fact(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<Seq, Lost> {
        let (key, value) = (key.as_ref(), value.as_ref());
        let lengths = [key.len(), value.len()].map(|length| (length as u32).to_le_bytes());
        let parts = [&lengths[0][..], key, &lengths[1], value];
        self.definition(DefKind::PROCESS, &parts)
    }

    pub(super) fn definition_if_full(
        &self,
        kind: DefKind,
        parts: &[&[u8]],
        if_full: IfFull,
    ) -> Result<Seq, Lost> {
        if !self.owner.records() {
            return Err(Lost::OtherProcess);
        }
        let bytes = parts.iter().map(|part| part.len() as u64).sum::<u64>();
        let slots = slot::slots_for(bytes);
        let seq = if bytes > layout::payload_limit(self.ring.capacity()) {
            Err(Lost::TooLarge)
        } else {
            self.reserve(slots, if_full).ok_or(Lost::RingFull)
        };
        let seq = match seq {
            Ok(seq) => seq,
            Err(Lost::RingFull) if if_full == IfFull::Refuse => return Err(Lost::RingFull),
            Err(lost) => {
                self.losses.definition(self.head, self.ring.checks());
                return Err(lost);
            }
        };
        let words = slot::definition_words(kind, bytes, slots as u32);
        self.ring.commit_with_payload(seq, &words, parts);
        self.wake_drain(seq, slots);
        Ok(Seq(seq))
    }

    fn reserve(&self, slots: u64, if_full: IfFull) -> Option<u64> {
        loop {
            if let Some(seq) = self.ring.reserve(slots) {
                return Some(seq);
            }
            if if_full != IfFull::Wait || !self.backpressure.wait(&self.ring, slots, self.nudge()) {
                return self.ring.reserve(slots);
            }
        }
    }
}

/// The counters of a device and level, locked: see [`Writer::lock_counters`].
pub struct CounterGuard<'a> {
    writer: &'a Writer,
    row: LockedRow<'a>,
    #[cfg(debug_assertions)]
    number: u64,
}

impl CounterGuard<'_> {
    /// Records an allocation or a release of this device and level if there is room. None, without an effect, for
    /// any other event and for the first one, which [`Writer::event_to`] must record. `live` is as there.
    #[inline(always)]
    pub fn event(self, event: &Event, live: Option<u64>) -> Option<Seq> {
        let Self {
            writer,
            mut row,
            #[cfg(debug_assertions)]
            number,
        } = self;
        #[cfg(debug_assertions)]
        debug_assert_eq!(layout::row_number(event.device, event.level), Some(number));
        let change = Change::of(event)?;
        if row.changes() == 0 {
            return None;
        }
        let seq = writer.ring.reserve(1)?;
        let now = row.change(change);
        drop(row);
        let mut words = slot::event_words(event);
        if live.is_some_and(|live| live != now) {
            slot::add_flags(&mut words, EventFlags::MISMATCH);
        }
        writer.commit(seq, &words);
        Some(Seq(seq))
    }
}

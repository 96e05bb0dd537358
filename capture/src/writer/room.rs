//! Recording under a lock of the caller, without waiting for room.
//!
//! A record waits while the ring is full. If the thread held a lock meanwhile, all threads of the recorded program
//! that want the lock would wait, too. Where a lock orders changes and their records, each change is attempted under
//! the lock and refused if there is no room. The caller then releases the lock, waits, and tries again:
//!
//! ```ignore
//! writer.in_order(|attempt| {
//!     let mut state = lock();
//!     writer.event_without_waiting(attempt, &event(&state))?;
//!     state.change();
//!     Ok(())
//! })
//! ```

use super::attempt::{Attempt, IfFull, Refused, assert_may_wait};
use super::counter_snapshot::CounterSnapshot;
use super::error::Lost;
use super::shared::Writer;
use crate::{DefKind, Event, Seq, slot};

impl Writer {
    /// [`Writer::event`] without waiting.
    ///
    /// # Errors
    /// [`Refused`] if there is no room and waiting may help; the inner result is that of [`Writer::event`].
    pub fn event_without_waiting(
        &self,
        attempt: Attempt,
        event: &Event,
    ) -> Result<Result<Seq, Lost>, Refused> {
        if !self.is_own_process() {
            return Ok(Err(Lost::OtherProcess));
        }
        attempt.result(self.event_otherwise(event, None, attempt.0), 1)
    }

    /// [`Writer::definition`] without waiting.
    ///
    /// # Errors
    /// As [`Writer::event_without_waiting`].
    pub fn definition_without_waiting(
        &self,
        attempt: Attempt,
        kind: DefKind,
        parts: &[&[u8]],
    ) -> Result<Result<Seq, Lost>, Refused> {
        let bytes = parts.iter().map(|part| part.len() as u64).sum();
        let result = self.definition_if_full(kind, parts, attempt.0);
        attempt.result(result, slot::slots_for(bytes))
    }

    /// [`Writer::counter_snapshot`] without waiting.
    ///
    /// # Errors
    /// As [`Writer::event_without_waiting`].
    pub fn counter_snapshot_without_waiting(
        &self,
        attempt: Attempt,
        event: &Event,
        anew: bool,
    ) -> Result<Result<CounterSnapshot, Lost>, Refused> {
        attempt.result(self.counter_snapshot_if_full(event, anew, attempt.0), 1)
    }

    /// Waits for room, like [`Writer::event`]; returns the next attempt, which is not refused if the wait did not
    /// help.
    pub fn wait_for_room(&self, refused: Refused) -> Attempt {
        assert_may_wait();
        match self
            .backpressure
            .wait(&self.ring, refused.slots, self.nudge())
        {
            true => Attempt::FIRST,
            false => Attempt(IfFull::Lose),
        }
    }

    /// Calls `attempt` until it is not refused, and waits for room in between.
    pub fn in_order<R>(&self, mut attempt: impl FnMut(Attempt) -> Result<R, Refused>) -> R {
        let mut next = Attempt::FIRST;
        loop {
            match attempt(next) {
                Ok(result) => return result,
                Err(refused) => next = self.wait_for_room(refused),
            }
        }
    }
}

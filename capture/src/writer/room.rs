//! Recording under a lock of the caller's, without waiting for room.
//!
//! A record waits while the ring is full. Who held a lock meanwhile would make all wait who want that lock: threads of
//! the recorded program. Where a lock orders changes and their records, each change is attempted under the lock and
//! refused if there is no room; then the caller releases the lock, waits, and attempts it again:
//!
//! ```ignore
//! writer.in_order(|attempt| {
//!     let mut state = lock();
//!     writer.event_without_waiting(attempt, &event(&state))?;
//!     state.change();
//!     Ok(())
//! })
//! ```

#[cfg(debug_assertions)]
use std::cell::Cell;
use std::marker::PhantomData;

use super::{Cut, Lost, Writer};
use crate::{DefKind, Event, Seq, slot};

/// What becomes of a record that finds no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IfFull {
    /// It waits for room, and is lost in the end.
    Wait,
    /// Nothing happens: [`Lost::RingFull`], which is not counted.
    Refuse,
    /// It is lost.
    Lose,
}

/// An attempt to record something without waiting: see [`Writer::in_order`].
#[derive(Clone, Copy, Debug)]
pub struct Attempt(IfFull);

impl Attempt {
    /// The first one, which may be refused.
    pub const FIRST: Self = Self(IfFull::Refuse);
}

/// There was no room for a record, and nothing has happened. [`Writer::wait_for_room`] gives the next attempt.
#[derive(Debug)]
#[must_use = "nothing is recorded"]
pub struct Refused {
    slots: u64,
}

impl Attempt {
    fn result<T>(self, result: Result<T, Lost>, slots: u64) -> Result<Result<T, Lost>, Refused> {
        match result {
            Err(Lost::RingFull) if self.0 == IfFull::Refuse => Err(Refused { slots }),
            result => Ok(result),
        }
    }
}

impl Writer {
    /// [`Writer::event`] without waiting.
    ///
    /// # Errors
    /// [`Refused`] if there is no room and waiting may help; the result inside is [`Writer::event`]'s.
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
    /// As [`Writer::event_without_waiting`]'s.
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

    /// [`Writer::cut`] without waiting.
    ///
    /// # Errors
    /// As [`Writer::event_without_waiting`]'s.
    pub fn cut_without_waiting(
        &self,
        attempt: Attempt,
        event: &Event,
        anew: bool,
    ) -> Result<Result<Cut, Lost>, Refused> {
        attempt.result(self.cut_if_full(event, anew, attempt.0), 1)
    }

    /// Waits for the room that was missing, as [`Writer::event`] does; the next attempt, which is not refused if
    /// waiting was in vain.
    pub fn wait_for_room(&self, refused: Refused) -> Attempt {
        assert_may_wait();
        match self.space.wait(&self.ring, refused.slots, self.nudge()) {
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

#[cfg(debug_assertions)]
thread_local! {
    /// Locks of the caller's that the thread holds.
    static HELD: Cell<u32> = const { Cell::new(0) };
}

/// Says, as long as it lives, that the thread holds a lock for which others may wait. With debug assertions, what may
/// wait for room then panics, whether there is room or not.
#[derive(Debug)]
pub struct LockHeld {
    _of_this_thread: PhantomData<*mut ()>,
}

impl LockHeld {
    /// From now on.
    #[inline]
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        #[cfg(debug_assertions)]
        HELD.with(|held| held.set(held.get() + 1));
        Self {
            _of_this_thread: PhantomData,
        }
    }
}

impl Drop for LockHeld {
    #[inline]
    fn drop(&mut self) {
        #[cfg(debug_assertions)]
        HELD.with(|held| held.set(held.get() - 1));
    }
}

/// With debug assertions: panics if the thread holds a lock for which others may wait. For whatever may take long.
#[inline(always)]
#[track_caller]
pub fn assert_may_wait() {
    #[cfg(debug_assertions)]
    assert_eq!(HELD.with(Cell::get), 0, "a lock is held by what may wait");
}

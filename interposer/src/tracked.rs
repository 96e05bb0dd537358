//! Transitions of the tracker, and their events in the same order.

use gpumem_capture::{Attempt, Event, Refused, Writer};
use gpumem_tracker::Tracker;

use crate::session::Session;

/// Asks the tracker.
pub(crate) fn look<R>(session: &Session, look: impl FnOnce(&Tracker) -> R) -> R {
    look(&session.tracker.lock())
}

/// Makes a transition and records what follows from it: with what other threads' transitions left, in the order of
/// the transitions. The lock is held while events are written, and never while they wait for room.
pub(crate) fn apply<R>(session: &Session, change: impl FnOnce(&mut Tracker) -> R) -> R {
    let writer = session.writer;
    let (result, mut refused) = {
        let mut tracker = session.tracker.lock();
        let result = change(&mut tracker);
        (result, write(writer, Attempt::FIRST, &mut tracker).err())
    };
    while let Some(full) = refused {
        let attempt = writer.wait_for_room(full);
        refused = write(writer, attempt, &mut session.tracker.lock()).err();
    }
    result
}

fn write(writer: &Writer, attempt: Attempt, tracker: &mut Tracker) -> Result<(), Refused> {
    while let Some(resized) = tracker.unwritten() {
        let event = Event {
            time: writer.now(),
            ..resized.event()
        };
        let _ = writer.event_without_waiting(attempt, &event)?;
        tracker.written();
    }
    Ok(())
}

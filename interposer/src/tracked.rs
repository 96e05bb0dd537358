//! Transitions of the tracker, and their events in the same order.

use core::sync::atomic::Ordering;

use gpumem_capture::{Attempt, Event, Refused, Writer};
use gpumem_tracker::Tracker;

use crate::account;
use crate::session::Session;

/// Events that are written before other threads have their turn: a context may end with thousands of blocks.
const AT_ONCE: u32 = 64;

/// Asks the tracker.
pub(crate) fn look<R>(session: &Session, look: impl FnOnce(&Tracker) -> R) -> R {
    look(&session.tracker.lock())
}

/// Makes a transition and records what follows from it: with what other threads' transitions left, in the order of
/// the transitions. The lock is held while events are written, and never while they wait for room.
pub(crate) fn apply<R>(session: &Session, change: impl FnOnce(&mut Tracker) -> R) -> R {
    let writer = session.writer;
    let (result, last, mut written) = {
        let mut tracker = session.tracker.lock();
        let result = change(&mut tracker);
        session
            .interest
            .store(tracker.interest().0, Ordering::Release);
        for _ in 0..tracker.take_missed_releases() {
            account::missed_release();
        }
        let (last, _) = tracker.progress();
        (result, last, write(writer, Attempt::FIRST, &mut tracker))
    };
    loop {
        let attempt = match written {
            Ok(number) if number >= last => return result,
            Ok(_) => Attempt::FIRST,
            Err(full) => writer.wait_for_room(full),
        };
        written = write(writer, attempt, &mut session.tracker.lock());
    }
}

/// Writes some of the oldest events; how many have been written so far.
fn write(writer: &Writer, attempt: Attempt, tracker: &mut Tracker) -> Result<u64, Refused> {
    for _ in 0..AT_ONCE {
        let Some(event) = tracker.unwritten() else {
            break;
        };
        let event = Event {
            time: writer.now(),
            ..*event
        };
        let recorded = writer.event_without_waiting(attempt, &event)?;
        tracker.written(recorded.ok());
    }
    let (_, written) = tracker.progress();
    Ok(written)
}

//! Changes of the tracker, and their events in the same order.

use core::sync::atomic::Ordering;

use gpumem_capture::{Attempt, DeviceOrdinal, Event, Refused, Writer};
use gpumem_tracker::{Questions, Tracker};

use crate::account;
use crate::session::Session;

/// Maximum number of events that are written before other threads get their turn: a context may end with thousands of
/// blocks.
const AT_ONCE: u32 = 64;

/// Queries the tracker.
pub(crate) fn look<R>(session: &Session, look: impl FnOnce(&Tracker) -> R) -> R {
    look(&session.tracker.lock())
}

/// Applies a change and records the resulting events, together with events left by other threads' changes, in the
/// order of the changes. The lock is held while events are written, and never while they wait for room.
pub(crate) fn apply<R>(session: &Session, change: impl FnOnce(&mut Tracker) -> R) -> R {
    let writer = session.writer;
    let (result, last, mut written) = {
        let mut tracker = session.tracker.lock();
        let result = change(&mut tracker);
        publish(session, &tracker);
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

/// Publishes the values that are read without the lock.
fn publish(session: &Session, tracker: &Tracker) {
    session
        .interest
        .store(tracker.interest().0, Ordering::Release);
    session
        .context_ends
        .store(tracker.context_ends(), Ordering::Release);
    let only_pool = tracker.only_pool();
    let word = only_pool.map_or(0, |(pool, device)| word_of(pool, device));
    session.only_pool.store(word, Ordering::SeqCst);
}

/// A pool and its device; 0 for one that does not fit.
fn word_of(pool: u64, device: DeviceOrdinal) -> u64 {
    match pool.leading_zeros() >= u8::BITS {
        true => pool << u8::BITS | u64::from(device.0),
        false => 0,
    }
}

/// Whether a pool is the only thing to query, and its device; needs no lock.
pub(crate) fn only_pool(session: &Session, pool: u64) -> Option<DeviceOrdinal> {
    let word = session.only_pool.load(Ordering::SeqCst);
    (word != 0 && word >> u8::BITS == pool).then_some(DeviceOrdinal(word as u8))
}

/// The queries of pools and graphs; `None` without pools and graphs. `used`: a pool that memory came from, and its
/// device. If it is the only pool, as in most programs, no lock is needed.
pub(crate) fn questions(
    session: &Session,
    used: Option<(u64, DeviceOrdinal)>,
) -> Option<Questions> {
    let Some((pool, device)) = used else {
        return look(session, Tracker::questions);
    };
    let word = word_of(pool, device);
    let is_only = || word != 0 && session.only_pool.load(Ordering::SeqCst) == word;
    if is_only() {
        let question = session.asked.of_pool(pool, device);
        // Otherwise another thread has recorded another pool, and may have queried before: its answers do not count
        // any more.
        if is_only() {
            return Some(question);
        }
    }
    let mut tracker = session.tracker.lock();
    tracker.pool_used(pool, device);
    // Before the query: see above.
    publish(session, &tracker);
    tracker.questions()
}

/// Writes some of the oldest events; returns how many have been written so far.
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

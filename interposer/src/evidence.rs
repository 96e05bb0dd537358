//! Evidence of implicitly allocated bytes, which calls pass to the tracker. This module measures nothing: readings of
//! the card do ([`crate::sampler`]).

use gpumem_capture::{DeviceOrdinal, Level};
use gpumem_sys::own_stack;
use gpumem_tracker::{FunctionOf, Kind, Origin, Pending, Seen, Tracker};

use crate::call::{self, Call, CallsSoFar};
use crate::session::{self, Session};
use crate::thread::Thread;
use crate::tracked::{apply, look};
use crate::{card, driver, record};

/// A context and its device.
#[derive(Clone, Copy)]
pub(crate) struct Location {
    pub(crate) context: u64,
    pub(crate) device: DeviceOrdinal,
}

/// The session, if cards can be read; otherwise evidence has no effect.
fn reading_session() -> Option<&'static Session> {
    session::session().filter(|_| card::can_be_read())
}

/// The only context, if its memory can be queried: a query would activate one that was reset.
fn only_context(session: &Session) -> Option<Location> {
    let (context, device) = look(session, Tracker::only_context)?;
    Some(Location { context, device })
}

/// The only context, or else the current one, if it was seen. Otherwise a call may have activated one.
pub(crate) fn place() -> Option<Location> {
    let session = reading_session()?;
    only_context(session).or_else(|| {
        let context = driver::current_context();
        let device = look(session, |tracker| tracker.device_of(context))?;
        Some(Location { context, device })
    })
}

/// The context in which a call will leave evidence, determined before the call.
#[derive(Clone, Copy)]
pub(crate) struct Before {
    pub(crate) place: Location,
    /// The calls so far, if the free memory there is known.
    asked: Option<CallsSoFar>,
}

/// Called before a module or library is loaded or a stream is created: the context, if it is known. With one context,
/// the free memory is queried: its decrease since the last query is the weight of the evidence in between.
pub(crate) fn before(thread: &Thread) -> Option<Before> {
    let session = reading_session()?;
    let Some(place) = only_context(session) else {
        let asked = None;
        return self::place().map(|place| Before { place, asked });
    };
    let (_, asked) = ask_free(thread, session, place, None);
    Some(Before { place, asked })
}

/// Queries the free memory on the only context's device. Returns its decrease since the last query, if that is known,
/// and the number of calls so far, if no call is in progress. If there were other calls `since`, the answer does not
/// count.
fn ask_free(
    thread: &Thread,
    session: &'static Session,
    place: Location,
    since: Option<CallsSoFar>,
) -> (Option<u64>, Option<CallsSoFar>) {
    let still = call::still(thread).filter(|still| since.is_none_or(|since| since == *still));
    let free = driver::free_bytes();
    let explained = session.writer.counters(place.device, Level::PHYSICAL).live;
    let free = free.filter(|_| still.is_some() && call::still(thread) == still);
    let fell = apply(session, |tracker| {
        tracker.asked_free(place.device, free, explained)
    });
    (fell, still.filter(|_| free.is_some()))
}

/// Records a new stream, for which `before` is known. Most streams fit into their context's memory: they leave no
/// evidence.
pub(crate) fn stream_made(
    thread: &Thread,
    call: &Call,
    place: Option<Location>,
    before: Option<Before>,
) {
    let asked = before.and_then(|before| Some((before.place, before.asked?)));
    let bytes = reading_session()
        .zip(asked)
        .and_then(|(session, (place, calls))| ask_free(thread, session, place, Some(calls)).0);
    if bytes != Some(0) {
        leave(thread, call, place, |tracker, place, origin| {
            tracker.stream_made(place.device, place.context, bytes, origin);
        });
    }
}

fn leave(
    thread: &Thread,
    call: &Call,
    place: Option<Location>,
    change: impl FnOnce(&mut Tracker, Location, Origin),
) {
    let Some(session) = reading_session() else {
        return;
    };
    if let Some(place) = place {
        let origin = record::origin(session, thread, call);
        apply(session, |tracker| change(tracker, place, origin));
        session.readings.read_soon();
    }
}

/// Records that a module or library was loaded.
pub(crate) fn loaded(thread: &Thread, call: &Call, place: Option<Location>, library: u64) {
    leave(thread, call, place, |tracker, place, origin| {
        tracker.loaded(place.device, place.context, library, origin);
    });
}

/// Records that a module is the part of a library in the current context: its code is loaded if it was not.
pub(crate) fn part_got(
    thread: &Thread,
    call: &Call,
    place: Option<Location>,
    module: u64,
    library: u64,
) {
    leave(thread, call, place, |tracker, place, origin| {
        tracker.is_part_of(module, library);
        tracker.loaded(place.device, place.context, library, origin);
    });
}

/// Whether the owner of a function is already known: another look-up of it is not evidence.
pub(crate) fn is_known(function: u64) -> bool {
    let session = session::session();
    session.is_some_and(|session| look(session, |tracker| tracker.knows_function(function)))
}

/// Records a function look-up: its code may be loaded now or at its first launch.
pub(crate) fn function_got(
    thread: &Thread,
    call: &Call,
    place: Option<Location>,
    function: u64,
    of: FunctionOf,
) {
    leave(thread, call, place, |tracker, place, origin| {
        tracker.function_got(place.device, place.context, function, of, origin);
    });
}

/// Records a variable look-up: its memory may be allocated only now.
pub(crate) fn variable_got(thread: &Thread, call: &Call, place: Option<Location>, module: u64) {
    leave(thread, call, place, |tracker, place, origin| {
        tracker.variable_got(place.device, place.context, module, origin);
    });
}

/// Records that a limit of the current context was set: it takes effect now or at a later launch.
pub(crate) fn limit_set(thread: &Thread, call: &Call, place: Option<Location>) {
    leave(thread, call, place, |tracker, place, origin| {
        tracker.limit_set(place.device, place.context, origin);
    });
}

/// Called before a context is created on a device: memory that this process already has there is not a cost of the
/// context. The first time, also records the other processes there and the used memory of the card.
pub(crate) fn before_context(device: DeviceOrdinal) {
    let session = session::session();
    let explained = session.map_or(0, |session| {
        session.writer.counters(device, Level::PHYSICAL).live
    });
    if own_stack::run(|| card::read_before_first(device, explained))
        && let Some(session) = session
    {
        session.readings.read_now(session, device);
    }
}

/// Records a context whose event is recorded.
pub(crate) fn context_seen(
    thread: &Thread,
    call: &Call,
    device: DeviceOrdinal,
    context: u64,
    how: Seen,
) {
    let Some(session) = session::session() else {
        return;
    };
    let origin = record::origin(session, thread, call);
    let used = card::used_before_first(device);
    apply(session, |tracker| {
        if let Some((used, explained)) = used {
            tracker.before_first_context(device, used, explained);
        }
        tracker.context_seen(device, context, how, origin);
    });
    session.readings.read_now(session, device);
}

/// Records that contexts of a device have ended: the remaining memory of this process there has no owner.
pub(crate) fn contexts_ended(device: DeviceOrdinal) {
    if let Some(session) = reading_session() {
        session.readings.read_now(session, device);
    }
}

/// Records that a module or library is about to be unloaded.
pub(crate) fn unloading(thread: &Thread, call: &Call, library: u64) -> Option<Pending> {
    record::without_stacks(thread, call, |tracker, origin| {
        tracker.unloading(library, origin)
    })
}

/// Called after the unload.
pub(crate) fn unloaded() {
    if let Some(session) = reading_session() {
        session.readings.read_soon();
    }
}

/// Records that a pool ended that other threads used meanwhile, and that has live memory: the size of its last growth
/// cannot be queried any more.
pub(crate) fn pool_unasked(thread: &Thread, call: &Call, device: DeviceOrdinal, pool: u64) {
    if let Some(session) = reading_session() {
        let origin = record::caller(thread, call.api());
        apply(session, |tracker| {
            tracker.pool_unasked(device, Kind::Pool.of(pool), origin);
        });
        session.readings.read_soon();
    }
}

/// Records that memory was shared with other processes.
pub(crate) fn handed_out() {
    if let Some(session) = session::session() {
        apply(session, Tracker::handed_out);
    }
}

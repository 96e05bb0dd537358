//! Contexts that are created, or first seen in use: runtimes activate primary contexts by internal tables of the
//! driver, and a reset one becomes active again with its next use.

use core::sync::atomic::Ordering;

use gpumem_capture::DeviceOrdinal;
use gpumem_tracker::{Interest, Seen, Tracker};

use crate::call::Call;
use crate::contexts::is_inactive;
use crate::evidence::{self, Before, Location};
use crate::thread::Thread;
use crate::{driver, record, session, tracked};

/// Records a context that the program created, or a primary one that was activated or found in use.
pub(super) fn made(
    thread: &Thread,
    call: &Call,
    context: u64,
    device: DeviceOrdinal,
    is_created: bool,
) {
    record::with_stacks(thread, call, device, |tracker, origin| {
        tracker.context_made(context, device, is_created, call.caller(), origin);
    });
}

/// Records the context that a block came from, if no hook has seen it. Returns whether that was so: then
/// [`evidence::context_seen`] must be called once the block is recorded.
pub(super) fn used(thread: &Thread, call: &Call, context: u64, device: DeviceOrdinal) -> bool {
    // A destroyed context may still be current, and has no device any more.
    let alive = context != 0 && device != DeviceOrdinal::NONE;
    let found = |tracker: &mut Tracker, origin| {
        tracker.context_found(context, device, call.caller(), origin)
    };
    alive
        && !is_known(thread, context)
        && record::with_stacks(thread, call, device, found) == Some(true)
}

/// The same for a context that no block came from.
pub(super) fn seen(thread: &Thread, call: &Call, context: u64, device: DeviceOrdinal) {
    if used(thread, call, context, device) {
        evidence::context_seen(thread, call, device, context, Seen::Found);
    }
}

/// The context in which a call has left evidence: the call may have activated it.
pub(super) fn place(thread: &Thread, call: &Call) -> Option<Location> {
    evidence::place().or_else(|| {
        in_use(thread, call);
        evidence::place()
    })
}

/// The context in which a call is about to leave evidence; `None` if the call activates a context.
pub(super) fn before(thread: &Thread, call: &Call) -> Option<Before> {
    evidence::before(thread).or_else(|| {
        in_use(thread, call);
        evidence::before(thread)
    })
}

/// Called after calls that used contexts, and before one of them may end: records a context that was activated
/// without being noticed.
pub(super) fn in_use(thread: &Thread, call: &Call) {
    if let Some(session) = session::session()
        && session.interest().has(Interest::INACTIVE_CONTEXTS)
    {
        for (context, device) in tracked::look(session, Tracker::inactive_contexts) {
            if !is_inactive(context, device) {
                seen(thread, call, context, device);
            }
        }
    }
    let context = driver::current_context();
    if context == 0 || is_known(thread, context) {
        return;
    }
    let device = driver::current_device();
    if !is_inactive(context, device) {
        seen(thread, call, context, device);
    }
}

/// Whether a context's creation is recorded. The tracker is queried once for each context that a thread uses in turn.
fn is_known(thread: &Thread, context: u64) -> bool {
    let Some(session) = session::session() else {
        return false;
    };
    // Read before the tracker is queried: a later end changes the number.
    let now = (context, session.context_ends.load(Ordering::Acquire));
    let is_known = thread.known_context.get() == now
        || tracked::look(session, |tracker| tracker.knows_context(context));
    if is_known {
        thread.known_context.set(now);
    }
    is_known
}

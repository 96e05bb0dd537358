//! Contexts as they are made, or first seen in use: runtimes bring primary contexts to life by tables of the driver's
//! own, and a reset one comes back with its next use.

use gpumem_capture::{DeviceOrdinal, EventKind, Level};
use gpumem_tracker::Seen;

use crate::call::Call;
use crate::contexts::{self, is_inactive, is_known, is_new};
use crate::driver;
use crate::evidence::{self, Place};
use crate::sideband::{self, Sideband};
use crate::thread::Thread;

/// Records a context that was made, or first seen in use.
pub(super) fn made(thread: &Thread, call: &Call, context: u64, device: DeviceOrdinal) {
    let what = Sideband {
        ptr: context,
        aux: call.caller(),
        device,
        with_stacks: true,
        ..Sideband::default()
    };
    sideband::record(thread, call.api(), EventKind::CONTEXT, Level::DRIVER, what);
}

/// Records the context that a block came from, if no hook has seen it. Whether it was so: once the block is recorded,
/// [`evidence::context_seen`] is to be called.
pub(super) fn used(thread: &Thread, call: &Call, context: u64, device: DeviceOrdinal) -> bool {
    // A context that was destroyed may still be current, and has no device any more.
    let alive = context != 0 && device != DeviceOrdinal::NONE;
    let unseen = alive && is_new(context, device);
    if unseen {
        made(thread, call, context, device);
    }
    unseen
}

/// The same of a context that no block came from.
pub(super) fn seen(thread: &Thread, call: &Call, context: u64, device: DeviceOrdinal) {
    if used(thread, call, context, device) {
        evidence::context_seen(thread, call, device, context, Seen::Found);
    }
}

/// Where a call has left evidence: the context may have come to life with it.
pub(super) fn place(thread: &Thread, call: &Call) -> Option<Place> {
    evidence::place().or_else(|| {
        in_use(thread, call);
        evidence::place()
    })
}

/// After calls that used contexts, and before one of them may end: if one came to life unseen, records it.
pub(super) fn in_use(thread: &Thread, call: &Call) {
    for (context, device) in contexts::ended() {
        if !is_inactive(context, device) && contexts::is_back(device) {
            seen(thread, call, context, device);
        }
    }
    let context = driver::current_context();
    if context == 0 || is_known(context) {
        return;
    }
    let device = driver::current_device();
    if !is_inactive(context, device) {
        seen(thread, call, context, device);
    }
}

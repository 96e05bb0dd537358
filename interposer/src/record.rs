//! Converts observed calls into changes of the tracker, and failed allocations into events.
//!
//! An allocation is recorded after the real call, by the innermost hook, under the outermost function's name. A release
//! is recorded before the real call, by the outermost hook; if the call then fails, the release is cancelled. So no
//! address is ever live twice in the order of events.

use core::sync::atomic::Ordering;

use gpumem_capture::{
    ApiId, DeviceOrdinal, Event, EventFlags, EventKind, Level, PlacementId, StackId,
};
use gpumem_cuda_abi::{CuDevice, CuMemoryPool};
use gpumem_tracker::{Block, Interest, Key, Kind, Origin, Pending, Questions, Tracker};

use crate::allocator::source;
use crate::call::Call;
use crate::failed::Failed;
use crate::session::{self, Session};
use crate::sideband::event;
use crate::thread::Thread;
use crate::tracked::{apply, look, questions};
use crate::{contexts, definitions, driver, limit, stack, stacks, workspace};

/// A new block, as observed by a hook.
#[derive(Clone, Copy)]
pub(crate) struct New {
    pub(crate) level: Level,
    pub(crate) ptr: u64,
    pub(crate) bytes: u64,
    pub(crate) device: DeviceOrdinal,
    /// The context that owns it, or the pool that it came from; 0 if only its device owns it.
    pub(crate) context: u64,
    pub(crate) flags: EventFlags,
}

/// The caller, without stacks.
pub(crate) fn caller(thread: &Thread, api: ApiId) -> Origin {
    Origin {
        thread: thread.id(),
        api,
        ..Origin::default()
    }
}

/// The caller, with stacks.
pub(crate) fn origin(session: &'static Session, thread: &Thread, call: &Call) -> Origin {
    let (py_stack, native_stack) = stack::take(session);
    stacks::know_caller(session, call.caller());
    Origin {
        py_stack,
        native_stack,
        ..caller(thread, call.api())
    }
}

/// The key of a block of that kind.
fn key_of(level: Level, flags: EventFlags, ptr: u64) -> Key {
    let is_handle = flags.contains(EventFlags::VMM_HANDLE);
    Key {
        level,
        is_handle,
        ptr,
    }
}

/// Records an allocation that succeeded. Opens the capture if it is the first event.
pub(crate) fn allocated(thread: &Thread, call: &Call, new: New) {
    let Some(session) = session::open() else {
        return;
    };
    definitions::write_if_new(session.writer);
    session.know_device(new.device);
    let origin = origin(session, thread, call);
    let New {
        level,
        ptr,
        bytes,
        device,
        context,
        flags,
    } = new;
    // The size of a pool of managed memory is not asked: only the driver knows what of it is on the card.
    let is_pooled =
        flags.contains(EventFlags::STREAM_ORDERED) && !flags.contains(EventFlags::MANAGED);
    let pool = is_pooled.then_some((context, device));
    // Memory that pools freed to make room is gone before the block is allocated.
    let asked = match level {
        Level::DRIVER => ask(session, pool),
        _ => None,
    };
    let block = Block {
        bytes,
        context,
        device,
        flags,
        py_stack: origin.py_stack,
    };
    let key = key_of(level, flags, ptr);
    let is_unmapped = session.interest().has(Interest::MAPPINGS) && mapping_is_gone(session, key);
    apply(session, |tracker| {
        if let Some(asked) = &asked {
            tracker.answered(asked, session.is_allocating(), origin);
        }
        if is_unmapped {
            tracker.missed_unmapping(ptr, ptr.saturating_add(bytes), origin);
        }
        match key.is_handle {
            true => tracker.handle_made(key, block, call.caller(), origin),
            false => tracker.allocated(key, block, call.caller(), origin),
        }
    });
    if level == Level::DRIVER {
        session.readings.grown(session.writer, device);
    }
}

/// Whether an address counts as mapped to a handle and is not: its unmapping was missed.
#[cold]
#[inline(never)]
fn mapping_is_gone(session: &Session, key: Key) -> bool {
    look(session, |tracker| tracker.is_mapped(key)) && !driver::is_mapped(key.ptr)
}

/// The current sizes of pools and graphs, as the driver reports them; `None` without pools and graphs. `used`: a pool
/// that memory came from, and its device.
fn ask(session: &Session, used: Option<(u64, DeviceOrdinal)>) -> Option<Questions> {
    if used.is_none() && !session.interest().has(Interest::QUESTIONS) {
        return None;
    }
    let mut questions = questions(session, used)?;
    for (reservation, device, answer) in &mut questions.of {
        *answer = match reservation.kind {
            Kind::Pool => driver::pool_reserved(CuMemoryPool(reservation.handle as *mut _)),
            _ => driver::graph_reserved(CuDevice(i32::from(device.0))),
        };
    }
    Some(questions)
}

/// Records the current sizes of pools and graphs, if they have changed.
pub(crate) fn settle(thread: &Thread, api: ApiId) {
    if let Some(session) = session::session() {
        settle_in(session, caller(thread, api));
    }
}

/// The same with a given origin.
pub(crate) fn settle_in(session: &Session, origin: Origin) {
    if let Some(asked) = ask(session, None) {
        apply(session, |tracker| {
            tracker.answered(&asked, session.is_allocating(), origin);
        });
    }
}

/// Applies a change with stacks. Opens the capture if it is the first event. `device`: its device.
pub(crate) fn with_stacks<R>(
    thread: &Thread,
    call: &Call,
    device: DeviceOrdinal,
    change: impl FnOnce(&mut Tracker, Origin) -> R,
) -> Option<R> {
    let session = session::open()?;
    session.know_device(device);
    let origin = origin(session, thread, call);
    Some(apply(session, |tracker| change(tracker, origin)))
}

/// Applies a change without stacks. Before the capture is open, nothing is known that could end.
pub(crate) fn without_stacks<R>(
    thread: &Thread,
    call: &Call,
    change: impl FnOnce(&mut Tracker, Origin) -> R,
) -> Option<R> {
    let session = session::session()?;
    let origin = caller(thread, call.api());
    Some(apply(session, |tracker| change(tracker, origin)))
}

/// Records a release that is about to be tried. `extra` adds flags.
pub(crate) fn releasing(
    thread: &Thread,
    api: ApiId,
    level: Level,
    ptr: u64,
    extra: EventFlags,
) -> Option<Pending> {
    let session = session::session()?;
    let origin = Origin {
        py_stack: match session.free_stacks {
            true => stacks::own_python(session),
            false => StackId::NONE,
        },
        ..caller(thread, api)
    };
    let key = key_of(level, extra, ptr);
    Some(apply(session, |tracker| {
        tracker.releasing(key, extra, origin)
    }))
}

/// Settles a call that has returned and should have ended something.
pub(crate) fn returned(thread: &Thread, call: &Call, pending: Pending, succeeded: bool) {
    if pending.is_over(succeeded) {
        return;
    }
    without_stacks(thread, call, |tracker, origin| {
        tracker.settle(pending, succeeded, origin);
    });
}

/// Records that an allocation failed with out of memory, and reports the failure. `aux` is by kind: see
/// [`EventKind::OUT_OF_MEMORY`].
pub(crate) fn out_of_memory(thread: &Thread, failed: Failed, aux: u64) {
    let Some(session) = session::open() else {
        return;
    };
    session.know_device(failed.device);
    let stacks = stack::take(session);
    let by_limit = limit::refused(&failed, thread.id().0, contexts::is_inactive);
    let limit = if by_limit {
        EventFlags::LIMIT
    } else {
        EventFlags::NONE
    };
    let placement = match failed.level {
        Level::TENSOR => source::of_failure(session, failed.device),
        _ => PlacementId::DEFAULT,
    };
    let recorded = session.writer.event(&Event {
        placement,
        flags: match failed.level {
            Level::TENSOR => limit.with(workspace::flag(thread)),
            _ => limit.with(failed.of),
        },
        ptr: failed.framework.map_or(0, |(live, _)| live),
        bytes: failed.bytes,
        aux,
        device: failed.device,
        api: failed.api,
        py_stack: stacks.0,
        native_stack: stacks.1,
        ..event(
            session.writer,
            thread,
            EventKind::OUT_OF_MEMORY,
            failed.level,
        )
    });
    if failed.level == Level::TENSOR || failed.is_told {
        session.trained_until.store(0, Ordering::Relaxed);
    }
    if let Ok(seq) = recorded {
        session.failures.tell(session, thread, failed, seq, stacks);
    }
    if failed.level != Level::TENSOR {
        session.readings.read_soon();
    }
}

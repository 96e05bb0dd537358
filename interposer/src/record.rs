//! Turns hooked calls into events.
//!
//! An allocation is recorded after the real call, by the innermost hook, under the outermost
//! function's name. A release is recorded before the real call, by the outermost hook; if the call
//! then fails, the release is cancelled. So no address is ever live twice in the order of events.

use gpumem_capture::{ApiId, DeviceOrdinal, Event, EventFlags, EventKind, Level, Seq, StackId};

use crate::aliases::{self, Ended};
use crate::failed::Failed;
use crate::live::{self, Block, Place};
use crate::physical::{self, Cause};
use crate::session::{self, Session};
use crate::sideband::event;
use crate::thread::Thread;
use crate::{account, definitions, limit, stack, stacks};

/// A new block as a hook saw it.
#[derive(Clone, Copy)]
pub(crate) struct New {
    pub(crate) level: Level,
    pub(crate) ptr: u64,
    pub(crate) bytes: u64,
    pub(crate) device: DeviceOrdinal,
    pub(crate) context: u64,
    pub(crate) flags: EventFlags,
    /// By kind: see [`EventKind::ALLOC`].
    pub(crate) aux: u64,
}

/// A release that was recorded, should it have to be cancelled.
pub(crate) enum Released {
    /// Of a live block: recorded before the call.
    Known {
        place: Place,
        block: Block,
        seq: Seq,
    },
    /// Of a pointer that is not in the live map: recorded once the call has succeeded, since a
    /// program may well try to release what is no allocation at all.
    Unknown {
        place: Place,
        flags: EventFlags,
        aux: u64,
    },
    /// Of memory that belongs to somebody else: its end is recorded, counted nowhere.
    Alias(Ended),
}

/// Records an allocation that succeeded. Opens the capture if it is the first event.
pub(crate) fn allocated(thread: &Thread, api: ApiId, new: New) {
    let Some(session) = session::open() else {
        return;
    };
    let writer = session.writer;
    definitions::write_if_new(writer);
    session.know_device(new.device);
    let (py_stack, native_stack) = stack::take(writer, session.stacks);
    stacks::know_caller(writer, new.aux);
    let place = place_of(new.level, new.flags, new.ptr);
    let New {
        bytes,
        context,
        device,
        flags,
        ..
    } = new;
    let block = Block {
        bytes,
        context,
        device,
        flags,
        py_stack,
    };
    let cause = Cause {
        session,
        thread: thread.id(),
        api,
        stacks: (py_stack, native_stack),
    };
    if let Some(stale) = live::insert(place, block) {
        account::missed_release();
        let _ = writer.event(&Event {
            ptr: new.ptr,
            bytes: stale.bytes,
            device: stale.device,
            flags: stale.flags.with(EventFlags::MISMATCH),
            api,
            ..event(writer, thread, EventKind::FREE, new.level)
        });
        physical::lost(&cause, place, &stale);
    }
    let _ = writer.event(&Event {
        ptr: new.ptr,
        bytes: new.bytes,
        aux: new.aux,
        device: new.device,
        flags: new.flags,
        api,
        py_stack,
        native_stack,
        ..event(writer, thread, EventKind::ALLOC, new.level)
    });
    if new.level == Level::DRIVER {
        (session.observers.allocated)(writer, device);
        // What pools gave back to make room is gone before the block has it.
        if physical::anything_to_settle() {
            physical::settle(&cause);
        }
        physical::gained(&cause, place, &block);
    }
}

/// Records what pools and graphs hold by now, if that has changed.
pub(crate) fn settle(thread: &Thread, api: ApiId) {
    if let (true, Some(session)) = (physical::anything_to_settle(), session::session()) {
        physical::settle(&cause(session, thread, api));
    }
}

/// What a call without stacks of its own changes at the physical level.
fn cause<'a>(session: &'a Session, thread: &Thread, api: ApiId) -> Cause<'a> {
    Cause {
        session,
        thread: thread.id(),
        api,
        stacks: (StackId::NONE, StackId::NONE),
    }
}

/// Where a block of that kind lives.
fn place_of(level: Level, flags: EventFlags, ptr: u64) -> Place {
    Place {
        level,
        vmm: flags.contains(EventFlags::VMM_HANDLE),
        ptr,
    }
}

/// Records a release that is about to be tried. `extra` flags qualify it; `aux` is by kind.
pub(crate) fn releasing(
    thread: &Thread,
    api: ApiId,
    level: Level,
    ptr: u64,
    extra: EventFlags,
    aux: u64,
) -> Option<Released> {
    // Before the capture is open nothing is live, so there is nothing to record.
    let session = session::session()?;
    release_in(
        session,
        thread,
        api,
        place_of(level, extra, ptr),
        extra,
        aux,
    )
}

fn release_in(
    session: &Session,
    thread: &Thread,
    api: ApiId,
    place: Place,
    extra: EventFlags,
    aux: u64,
) -> Option<Released> {
    let writer = session.writer;
    let base = Event {
        ptr: place.ptr,
        aux,
        api,
        ..event(writer, thread, EventKind::FREE, place.level)
    };
    let Some(block) = live::remove(place) else {
        if place.level == Level::DRIVER
            && !place.vmm
            && let Some(ended) = aliases::ending(thread, api, place.ptr)
        {
            return Some(Released::Alias(ended));
        }
        let flags = extra.with(EventFlags::UNKNOWN_POINTER);
        return Some(Released::Unknown { place, flags, aux });
    };
    let py_stack = match session.free_stacks {
        true => stacks::own_python(writer),
        false => StackId::NONE,
    };
    let recorded = writer.event(&Event {
        bytes: block.bytes,
        device: block.device,
        flags: block.flags.with(extra),
        py_stack,
        ..base
    });
    if place.level == Level::DRIVER {
        physical::lost(&cause(session, thread, api), place, &block);
    }
    Some(Released::Known {
        place,
        block,
        seq: recorded.unwrap_or(Seq(u64::MAX)),
    })
}

/// The real call succeeded: records the release if that could not be done before.
pub(crate) fn done(thread: &Thread, api: ApiId, released: Released) {
    let (Released::Unknown { place, flags, aux }, Some(session)) = (released, session::session())
    else {
        return;
    };
    let _ = session.writer.event(&Event {
        ptr: place.ptr,
        aux,
        device: DeviceOrdinal::NONE,
        flags,
        api,
        ..event(session.writer, thread, EventKind::FREE, place.level)
    });
}

/// Takes a recorded release back: the real call failed.
pub(crate) fn cancel(thread: &Thread, api: ApiId, released: Released) {
    let Some(session) = session::session() else {
        return;
    };
    let (place, block, seq) = match released {
        Released::Known { place, block, seq } => (place, block, seq),
        Released::Alias(ended) => return aliases::take_back(thread, api, ended),
        Released::Unknown { .. } => return,
    };
    live::insert(place, block);
    let _ = session.writer.event(&Event {
        ptr: place.ptr,
        bytes: block.bytes,
        aux: seq.0,
        device: block.device,
        flags: block.flags,
        api,
        ..event(session.writer, thread, EventKind::CANCEL, place.level)
    });
    if place.level == Level::DRIVER {
        physical::gained(&cause(session, thread, api), place, &block);
    }
}

/// Records the release of everything that `wanted` picks: its context is about to end, or has ended.
pub(crate) fn releasing_all(
    thread: &Thread,
    api: ApiId,
    wanted: impl Fn(&Place, &Block) -> bool,
) -> Vec<Released> {
    let Some(session) = session::session() else {
        return Vec::new();
    };
    live::matching(wanted)
        .into_iter()
        .filter_map(|place| release_in(session, thread, api, place, EventFlags::RESET, 0))
        .collect()
}

/// Records that an allocation failed for want of memory, and sees to it that it is told. `aux` is by
/// kind: see [`EventKind::OUT_OF_MEMORY`].
pub(crate) fn out_of_memory(thread: &Thread, failed: Failed, aux: u64) {
    let Some(session) = session::open() else {
        return;
    };
    session.know_device(failed.device);
    let stacks = stack::take(session.writer, session.stacks);
    let by_limit = limit::refused(&failed, thread.id().0);
    let recorded = session.writer.event(&Event {
        flags: if by_limit {
            EventFlags::LIMIT
        } else {
            EventFlags::NONE
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
    if let Ok(seq) = recorded {
        (session.observers.out_of_memory)(session, thread, failed, seq, stacks);
    }
    if failed.level != Level::TENSOR {
        (session.observers.read_soon)();
    }
}

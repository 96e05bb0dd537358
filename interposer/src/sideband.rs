//! Events that change no live figure: contexts, modules, mappings, aliases, marks.

use gpumem_capture::{
    ApiId, DeviceOrdinal, Event, EventFlags, EventKind, Level, Seq, StackId, Writer,
};

use crate::thread::Thread;
use crate::{session, stack, stacks};

/// An event on this thread with the current time.
pub(crate) fn event(writer: &Writer, thread: &Thread, kind: EventKind, level: Level) -> Event {
    Event {
        time: writer.now(),
        thread: thread.id(),
        kind,
        level,
        ..Event::default()
    }
}

/// The fields of such an event.
#[derive(Clone, Copy, Default)]
pub(crate) struct Sideband {
    pub(crate) ptr: u64,
    pub(crate) bytes: u64,
    pub(crate) aux: u64,
    pub(crate) device: DeviceOrdinal,
    pub(crate) flags: EventFlags,
    pub(crate) with_stacks: bool,
}

/// Records an event; returns its number.
pub(crate) fn record(
    thread: &Thread,
    api: ApiId,
    kind: EventKind,
    level: Level,
    what: Sideband,
) -> Option<Seq> {
    let session = if what.with_stacks {
        session::open()
    } else {
        session::session()
    };
    let session = session?;
    session.know_device(what.device);
    if matches!(kind, EventKind::CONTEXT | EventKind::MODULE_LOAD) {
        // A return address, or an image of code in memory, which may be in another module.
        stacks::know_caller(session, what.aux);
        stacks::know_image(session, what.bytes);
    }
    let (py_stack, native_stack) = if what.with_stacks {
        stack::take(session)
    } else {
        (StackId::NONE, StackId::NONE)
    };
    let recorded = session.writer.event(&Event {
        ptr: what.ptr,
        bytes: what.bytes,
        aux: what.aux,
        device: what.device,
        flags: what.flags,
        api,
        py_stack,
        native_stack,
        ..event(session.writer, thread, kind, level)
    });
    recorded.ok()
}

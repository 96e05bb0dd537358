//! On whose behalf the card gives or takes back, and the event of it.

use gpumem_capture::{
    ApiId, Attempt, DeviceOrdinal, Event, EventFlags, EventKind, Level, Refused, StackId, ThreadId,
};

use gpumem_tracker::Origin;

use crate::session::Session;

/// On whose behalf the card gives or takes back: the fields that every event of a call has.
#[derive(Clone, Copy)]
pub(crate) struct Cause<'a> {
    pub(crate) session: &'a Session,
    pub(crate) thread: ThreadId,
    pub(crate) api: ApiId,
    pub(crate) stacks: (StackId, StackId),
}

impl Cause<'_> {
    /// The same to the tracker.
    pub(super) fn origin(&self) -> Origin {
        Origin {
            thread: self.thread,
            api: self.api,
            py_stack: self.stacks.0,
            native_stack: self.stacks.1,
        }
    }

    /// The event of a change at the physical level.
    fn event(&self, kind: EventKind, device: DeviceOrdinal, ptr: u64, change: Change) -> Event {
        Event {
            time: self.session.writer.now(),
            thread: self.thread,
            kind,
            level: Level::PHYSICAL,
            device,
            ptr,
            bytes: change.bytes,
            aux: change.aux,
            flags: change.flags,
            api: self.api,
            py_stack: self.stacks.0,
            native_stack: self.stacks.1,
        }
    }

    /// Records a change whose order among others does not matter.
    pub(super) fn record(&self, kind: EventKind, device: DeviceOrdinal, ptr: u64, change: Change) {
        let event = self.event(kind, device, ptr, change);
        let _ = self.session.writer.event(&event);
    }

    /// Records a change under the lock of what changes: see [`Self::in_order`].
    pub(super) fn record_without_waiting(
        &self,
        attempt: Attempt,
        kind: EventKind,
        device: DeviceOrdinal,
        ptr: u64,
        change: Change,
    ) -> Result<(), Refused> {
        let event = self.event(kind, device, ptr, change);
        let writer = self.session.writer;
        writer.event_without_waiting(attempt, &event).map(|_| ())
    }

    /// Makes a change and records it under one lock, which `attempt` takes: see
    /// [`gpumem_capture::Writer::in_order`].
    pub(crate) fn in_order<R>(&self, attempt: impl FnMut(Attempt) -> Result<R, Refused>) -> R {
        self.session.writer.in_order(attempt)
    }
}

/// The figures of a change: see [`EventKind::ALLOC`] and [`EventKind::RESIZE`].
#[derive(Clone, Copy)]
pub(super) struct Change {
    pub(super) bytes: u64,
    pub(super) aux: u64,
    pub(super) flags: EventFlags,
}

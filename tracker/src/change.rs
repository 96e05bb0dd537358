//! What follows from a transition, to be recorded.

use gpumem_capture::{
    ApiId, DeviceOrdinal, Event, EventFlags, EventKind, Level, StackId, ThreadId,
};

use crate::reservations::Reservation;

/// On whose behalf something changes: the fields that its event carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The thread that called.
    pub thread: ThreadId,
    /// The function that it called.
    pub api: ApiId,
    /// Its Python stack.
    pub py_stack: StackId,
    /// Its native stack.
    pub native_stack: StackId,
}

/// A reservation has another size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resized {
    /// Where it is.
    pub device: DeviceOrdinal,
    /// Which one.
    pub reservation: Reservation,
    /// Its bytes before.
    pub from: u64,
    /// Its bytes now.
    pub to: u64,
    /// Whether its share is an estimate.
    pub estimated: bool,
    /// Who caused it.
    pub origin: Origin,
}

impl Resized {
    /// The event that says so, but for its time.
    pub fn event(&self) -> Event {
        let flags = self.reservation.kind.flags();
        Event {
            thread: self.origin.thread,
            kind: EventKind::RESIZE,
            level: Level::PHYSICAL,
            device: self.device,
            ptr: self.reservation.handle,
            bytes: self.to,
            aux: self.from,
            flags: match self.estimated {
                true => flags.with(EventFlags::ESTIMATED),
                false => flags,
            },
            api: self.origin.api,
            py_stack: self.origin.py_stack,
            native_stack: self.origin.native_stack,
            ..Event::default()
        }
    }
}

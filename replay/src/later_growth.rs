//! Bytes that readings after a point in time attribute to contexts, their streams, and code that existed at that point.
//!
//! No API reports how much memory a context, its streams or a module's code takes. The next reading that counts shows
//! it, a few milliseconds after the call. At a point in time between the two, their reservations are too small.

use gpumem_capture::{Event, EventFlags, EventKind, Level, Seq};
use rustc_hash::FxHashSet;

use crate::ids::KeyId;
use crate::objects::Objects;
use crate::reservation::ReservationKind;
use crate::serialize::serialize;

/// The most growths and handles that are kept. Without this limit, the list would grow until a reading comes.
const KEPT: usize = 4096;

/// A growth of a context, its streams or a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Growth {
    /// The event's number.
    pub seq: Seq,
    /// Context, streams or module.
    pub kind: ReservationKind,
    /// The context or module.
    pub handle: u64,
    /// The stacks that it is charged to.
    pub key: KeyId,
    /// The bytes added.
    pub bytes: u64,
}

/// The growths after a point in time, in the order of events.
#[derive(Clone, Debug, Default)]
pub struct LaterGrowth {
    grown: Vec<Growth>,
    /// Contexts and modules that began or shrank since that point: their growth does not belong to it.
    changed: FxHashSet<(ReservationKind, u64)>,
}

serialize! {
    Growth { seq, kind, handle, key, bytes }
    LaterGrowth { grown, changed }
}

impl LaterGrowth {
    /// Takes in an event after the point in time, on the same device. `objects` are those after the event.
    pub(crate) fn event(&mut self, seq: Seq, event: &Event, key: KeyId, objects: &Objects) {
        if self.grown.len() + self.changed.len() >= KEPT {
            return;
        }
        let begins = match event.kind {
            EventKind::CONTEXT => Some(ReservationKind::Context),
            EventKind::MODULE_LOAD => Some(ReservationKind::Module),
            _ => None,
        };
        if let Some(kind) = begins {
            self.changed.insert((kind, event.ptr));
        }
        if event.kind == EventKind::CONTEXT {
            self.changed
                .insert((ReservationKind::Streams, event.ptr | 1));
        }
        if event.kind != EventKind::RESIZE || event.level != Level::PHYSICAL {
            return;
        }
        let (kind, handle) = (ReservationKind::of(event.flags), event.ptr);
        let exists = match kind {
            ReservationKind::Context => objects.contexts.contains_key(&(event.device, handle)),
            ReservationKind::Streams => objects.contexts.contains_key(&(event.device, handle & !1)),
            ReservationKind::Module => objects.loads.contains_key(&handle) || event.aux > 0,
            _ => return,
        };
        if event.bytes < event.aux {
            self.changed.insert((kind, handle));
        } else if exists && !self.changed.contains(&(kind, handle)) {
            self.grown.push(Growth {
                seq,
                kind,
                handle,
                key,
                bytes: event.bytes - event.aux,
            });
        }
    }

    /// All of them.
    pub fn all(&self) -> &[Growth] {
        &self.grown
    }

    /// Calls `change` for the stacks of the growths.
    pub(crate) fn each_key(&mut self, change: &mut dyn FnMut(&mut KeyId)) {
        for growth in &mut self.grown {
            change(&mut growth.key);
        }
    }
}

/// Whether an event is one that [`LaterGrowth`] follows.
pub(crate) fn concerns(event: &Event) -> bool {
    match event.kind {
        EventKind::CONTEXT | EventKind::MODULE_LOAD => true,
        EventKind::RESIZE => {
            event.flags.contains(EventFlags::CONTEXT) || event.flags.contains(EventFlags::MODULE)
        }
        _ => false,
    }
}

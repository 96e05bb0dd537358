//! Bytes that readings after a moment attribute to contexts, their streams, and code that existed at the moment.
//!
//! No call says what a context, its streams or the code of a module takes. The next reading that counts does, a few
//! milliseconds after the call, so at a moment in between their reservations are too small.

use gpumem_capture::{Event, EventFlags, EventKind, Level, Seq};
use rustc_hash::FxHashSet;

use crate::ids::KeyId;
use crate::objects::Objects;
use crate::reservation::ReservationKind;
use crate::serialize::serialize;

/// How many growths and handles are kept at most: where no reading comes, nothing else ends the list.
const KEPT: usize = 4096;

/// A growth of a context, its streams or a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Growth {
    /// Its event.
    pub seq: Seq,
    /// Context, streams or module.
    pub kind: ReservationKind,
    /// Which one.
    pub handle: u64,
    /// The stacks that it is charged to.
    pub key: KeyId,
    /// By how much.
    pub bytes: u64,
}

/// The growths after a moment, in the order of events.
#[derive(Clone, Debug, Default)]
pub struct LaterGrowth {
    grown: Vec<Growth>,
    /// What began or shrank since the moment: what that grows by is not the moment's.
    changed: FxHashSet<(ReservationKind, u64)>,
}

serialize! {
    Growth { seq, kind, handle, key, bytes }
    LaterGrowth { grown, changed }
}

impl LaterGrowth {
    /// Takes in an event after the moment, on the moment's device. `objects` are those after it.
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

    /// The stacks of the growths, to be changed.
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

//! The pool's memory from the driver as the recorder would record it: turns the segments in the allocator's trace into
//! events of the driver and of the card.

use std::collections::BTreeMap;

use gpumem_capture::{ApiId, DeviceOrdinal, Event, EventFlags, EventKind, Level, PlacementId};
use rustc_hash::FxHashMap;

use crate::decisions::{Action, Decision};
use crate::growth::OUT_OF_MEMORY;
use crate::pool::PoolEvents;

/// The granularity of the card's memory.
const PAGE: u64 = 2 << 20;
/// The growth unit of an expandable segment of large blocks; segments of small blocks grow by a page.
const LARGE: u64 = 20 << 20;
/// No address of a recorded process has this bit.
const RELOCATED: u64 = 1 << 47;

/// The address in the capture for an address of this process; it differs from all addresses of the recorded process.
pub(crate) fn relocated(ptr: u64) -> u64 {
    ptr | RELOCATED
}

/// Names of CUDA's functions.
#[derive(Clone, Copy, Debug)]
struct Apis {
    malloc: ApiId,
    free: ApiId,
    create: ApiId,
    release: ApiId,
    map: ApiId,
    unmap: ApiId,
}

/// A mapped part of an expandable segment.
#[derive(Clone, Copy, Debug)]
struct Piece {
    bytes: u64,
    handle: u64,
}

/// The pool's memory from the driver.
#[derive(Debug)]
pub(crate) struct Segments {
    device: DeviceOrdinal,
    caller: u64,
    apis: Apis,
    plain: FxHashMap<u64, u64>,
    /// By address.
    mapped: BTreeMap<u64, Piece>,
    handles: u64,
    /// The physical memory of all of it.
    pub(crate) physical: u64,
}

impl Segments {
    pub(crate) fn new(device: DeviceOrdinal, pool: &PoolEvents) -> Self {
        Self {
            device,
            caller: pool.caller,
            apis: Apis {
                malloc: pool.api("cudaMalloc"),
                free: pool.api("cudaFree"),
                create: pool.api("cuMemCreate"),
                release: pool.api("cuMemRelease"),
                map: pool.api("cuMemMap"),
                unmap: pool.api("cuMemUnmap"),
            },
            plain: FxHashMap::default(),
            mapped: BTreeMap::new(),
            handles: 0,
            physical: 0,
        }
    }

    /// The events of a decision, with time, thread and stacks of `by`; empty if it does not concern segments.
    pub(crate) fn decided(&mut self, decision: &Decision, by: &Event) -> Vec<Event> {
        let ptr = relocated(decision.ptr);
        let bytes = decision.bytes;
        let mut events = Vec::new();
        let to = &mut events;
        match decision.action {
            Action::SegmentAlloc => {
                self.plain.insert(ptr, bytes);
                self.take(ptr, bytes, EventFlags::NONE, by, to);
            }
            Action::SegmentFree => {
                let bytes = self.plain.remove(&ptr).unwrap_or(bytes);
                self.give(ptr, bytes, EventFlags::NONE, by, to);
            }
            Action::Map => self.map(ptr, bytes, by, to),
            Action::Unmap => self.unmap(ptr, ptr + bytes, by, to),
            Action::Refused => to.push(Event {
                kind: EventKind::OUT_OF_MEMORY,
                bytes,
                aux: OUT_OF_MEMORY,
                api: self.apis.malloc,
                ..self.driver(by)
            }),
            _ => {}
        }
        events
    }

    /// An event of the driver.
    fn driver(&self, by: &Event) -> Event {
        Event {
            ptr: 0,
            bytes: 0,
            aux: 0,
            level: Level::DRIVER,
            device: self.device,
            flags: EventFlags::NONE,
            placement: PlacementId::default(),
            slack: 0,
            ..*by
        }
    }

    /// Takes memory from the driver and from the card.
    fn take(&mut self, ptr: u64, bytes: u64, flags: EventFlags, by: &Event, to: &mut Vec<Event>) {
        let event = Event {
            kind: EventKind::ALLOC,
            ptr,
            bytes,
            aux: self.caller,
            api: match flags {
                EventFlags::VMM_HANDLE => self.apis.create,
                _ => self.apis.malloc,
            },
            flags,
            ..self.driver(by)
        };
        let given = bytes.next_multiple_of(PAGE);
        self.physical += given;
        to.extend([
            event,
            Event {
                level: Level::PHYSICAL,
                bytes: given,
                aux: 0,
                ..event
            },
        ]);
    }

    /// Frees memory.
    fn give(&mut self, ptr: u64, bytes: u64, flags: EventFlags, by: &Event, to: &mut Vec<Event>) {
        let event = Event {
            kind: EventKind::FREE,
            ptr,
            bytes,
            api: match flags {
                EventFlags::VMM_HANDLE => self.apis.release,
                _ => self.apis.free,
            },
            flags,
            ..self.driver(by)
        };
        let given = bytes.next_multiple_of(PAGE);
        self.physical -= given;
        to.extend([
            event,
            Event {
                level: Level::PHYSICAL,
                bytes: given,
                ..event
            },
        ]);
    }

    fn map(&mut self, ptr: u64, bytes: u64, by: &Event, to: &mut Vec<Event>) {
        let size = match bytes.is_multiple_of(LARGE) {
            true => LARGE,
            false => PAGE,
        };
        let pieces: Vec<(u64, Piece)> = (0..bytes)
            .step_by(size as usize)
            .map(|at| {
                self.handles += 1;
                let piece = Piece {
                    bytes: size.min(bytes - at),
                    handle: relocated(self.handles),
                };
                (ptr + at, piece)
            })
            .collect();
        for (_, piece) in &pieces {
            self.take(piece.handle, piece.bytes, EventFlags::VMM_HANDLE, by, to);
        }
        for (at, piece) in pieces {
            to.push(Event {
                kind: EventKind::MAP,
                ptr: at,
                bytes: piece.bytes,
                aux: piece.handle,
                api: self.apis.map,
                ..self.driver(by)
            });
            self.mapped.insert(at, piece);
        }
    }

    /// Unmaps a range. The rest of a part that is only partly in the range is mapped again.
    fn unmap(&mut self, start: u64, end: u64, by: &Event, to: &mut Vec<Event>) {
        let before = self.mapped.range(..start).next_back();
        let first = before
            .filter(|(at, piece)| *at + piece.bytes > start)
            .map_or(start, |(at, _)| *at);
        let pieces: Vec<(u64, Piece)> = self
            .mapped
            .range(first..end)
            .map(|(at, piece)| (*at, *piece))
            .collect();
        for (at, piece) in pieces {
            self.mapped.remove(&at);
            to.push(Event {
                kind: EventKind::UNMAP,
                ptr: at,
                bytes: piece.bytes,
                aux: piece.handle,
                api: self.apis.unmap,
                ..self.driver(by)
            });
            self.give(piece.handle, piece.bytes, EventFlags::VMM_HANDLE, by, to);
            let until = at + piece.bytes;
            for (from, until) in [(at, start), (end, until)] {
                if from < until {
                    self.map(from, until - from, by, to);
                }
            }
        }
    }
}

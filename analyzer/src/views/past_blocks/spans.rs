//! The history of objects that are not blocks of a level: mappings of VMM handles, reserved address space, memory
//! behind pools and graphs, memory nodes of graphs, memory that others own.

use std::collections::BTreeMap;

use gpumem_capture::{DeviceOrdinal, Event, EventKind, Level, Nanos, Seq};

use super::keep::{DetailRange, Room};
use crate::replay::{Replay, ReservationKind};

/// The maximum number of graph nodes: the first ones. No event marks the end of a node.
const NODES: usize = 5000;

/// The kind of a span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum SpanKind {
    /// A mapping of `handle` at `address`.
    #[default]
    Mapping,
    /// Reserved address space, which belongs to no device.
    Addresses,
    /// Physical memory of a CUDA pool, whose handle is `address`.
    Pool,
    /// Physical memory of a device's graphs.
    Graphs,
    /// A memory node of the graph `handle`; it has no end.
    Node,
    /// Memory that another process, device or API owns.
    Alias,
}

/// An object with its size, from its start to its end or a change of size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PastSpan {
    /// The kind.
    pub kind: SpanKind,
    /// The device; for a mapping, the device of the memory.
    pub device: DeviceOrdinal,
    /// Its address, or its handle.
    pub address: u64,
    /// Its bytes.
    pub bytes: u64,
    /// See [`SpanKind`]; otherwise 0.
    pub handle: u64,
    /// When it began. For objects that existed at the start of a bounded capture: its start.
    pub made: (Seq, Nanos),
    /// When it ended; `None` if it did not.
    pub ended: Option<(Seq, Nanos)>,
}

/// The spans of a capture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PastSpans {
    /// Kept spans, by start.
    pub spans: Vec<PastSpan>,
    /// Whether no span is omitted.
    pub is_all: bool,
    /// The stretches without omitted spans.
    pub whole: Vec<DetailRange>,
    /// Omitted nodes.
    pub nodes_left_out: u64,
}

type Key = (SpanKind, DeviceOrdinal, u64);

/// Follows spans. Memory is bounded by the number of existing objects and by the room.
#[derive(Debug)]
pub(super) struct FollowSpans {
    room: usize,
    open: BTreeMap<Key, PastSpan>,
    ended: Vec<PastSpan>,
    nodes: Vec<PastSpan>,
    nodes_left_out: u64,
    is_all: bool,
    stretches: Vec<(DetailRange, bool)>,
}

impl FollowSpans {
    pub fn new(room: Room, stretches: &[DetailRange]) -> Self {
        Self {
            room: room.run.max(1),
            open: BTreeMap::new(),
            ended: Vec::new(),
            nodes: Vec::new(),
            nodes_left_out: 0,
            is_all: true,
            stretches: stretches.iter().map(|of| (*of, true)).collect(),
        }
    }

    /// Applies the state at the start of a bounded capture.
    pub fn restored(&mut self, replay: &Replay) {
        let made = (replay.last_seq, replay.last);
        for (address, of) in &replay.objects.mappings {
            self.begin(PastSpan {
                kind: SpanKind::Mapping,
                device: of.device,
                address: *address,
                bytes: of.bytes,
                handle: of.handle,
                made,
                ended: None,
            });
        }
        let span = |kind, device, address, bytes| PastSpan {
            kind,
            device,
            address,
            bytes,
            made,
            ..PastSpan::default()
        };
        for (address, bytes) in &replay.objects.address_space {
            self.begin(span(
                SpanKind::Addresses,
                DeviceOrdinal::NONE,
                *address,
                *bytes,
            ));
        }
        for ((device, address), bytes) in &replay.objects.aliases {
            self.begin(span(SpanKind::Alias, *device, *address, *bytes));
        }
        for ((device, _), level) in &replay.levels {
            for (kind, address, reservation) in level.reservations() {
                if let Some(kind) = reserved(kind) {
                    self.begin(span(kind, *device, address, reservation.bytes()));
                }
            }
        }
    }

    pub fn event(&mut self, seq: Seq, event: &Event) {
        let now = (seq, event.time);
        let span = |kind, device, handle| PastSpan {
            kind,
            device,
            address: event.ptr,
            bytes: event.bytes,
            handle,
            made: now,
            ended: None,
        };
        match event.kind {
            EventKind::MAP => self.begin(span(SpanKind::Mapping, event.device, event.aux)),
            EventKind::UNMAP => self.unmapped(event, now),
            EventKind::ADDRESS => self.begin(span(SpanKind::Addresses, DeviceOrdinal::NONE, 0)),
            EventKind::ADDRESS_END => {
                self.end((SpanKind::Addresses, DeviceOrdinal::NONE, event.ptr), now);
            }
            EventKind::ALIAS => self.begin(span(SpanKind::Alias, event.device, 0)),
            EventKind::ALIAS_END => self.end((SpanKind::Alias, event.device, event.ptr), now),
            EventKind::RESIZE if event.level == Level::PHYSICAL => {
                if let Some(kind) = reserved(ReservationKind::of(event.flags)) {
                    self.end((kind, event.device, event.ptr), now);
                    if event.bytes > 0 {
                        self.begin(span(kind, event.device, 0));
                    }
                }
            }
            EventKind::NODE if self.nodes.len() < NODES => {
                self.nodes
                    .push(span(SpanKind::Node, event.device, event.aux));
            }
            EventKind::NODE => self.nodes_left_out += 1,
            _ => {}
        }
    }

    fn begin(&mut self, span: PastSpan) {
        let key = key(&span);
        self.end(key, span.made);
        self.open.insert(key, span);
    }

    fn end(&mut self, key: Key, now: (Seq, Nanos)) {
        if let Some(span) = self.open.remove(&key) {
            self.keep(PastSpan {
                ended: Some(now),
                ..span
            });
        }
    }

    fn unmapped(&mut self, event: &Event, now: (Seq, Nanos)) {
        let end = event.ptr.saturating_add(event.bytes.max(1));
        let of = |address| (SpanKind::Mapping, DeviceOrdinal::NONE, address);
        let gone = self.open.range(of(event.ptr)..of(end));
        let gone: Vec<Key> = gone.map(|(key, _)| *key).collect();
        for key in gone {
            self.end(key, now);
        }
    }

    fn keep(&mut self, span: PastSpan) {
        if self.ended.len() >= self.room && self.is_all {
            self.is_all = false;
            let stretches = &self.stretches;
            self.ended
                .retain(|span| stretches.iter().any(|(stretch, _)| is_in(*stretch, span)));
        }
        let is_full = self.ended.len() >= self.room;
        let mut is_wanted = self.is_all;
        for (stretch, is_whole) in &mut self.stretches {
            if is_in(*stretch, &span) {
                is_wanted = true;
                *is_whole &= !is_full;
            }
        }
        if is_wanted && !is_full {
            self.ended.push(span);
        }
    }

    pub fn finish(self) -> PastSpans {
        let mut spans = self.ended;
        spans.extend(self.open.into_values());
        spans.extend(self.nodes);
        spans.sort_by_key(|span| span.made.0);
        let whole = self.stretches.into_iter().filter(|(_, is_whole)| *is_whole);
        PastSpans {
            spans,
            is_all: self.is_all,
            whole: whole.map(|(stretch, _)| stretch).collect(),
            nodes_left_out: self.nodes_left_out,
        }
    }
}

/// The key of a span. A mapping is identified only by its address, regardless of its memory.
fn key(span: &PastSpan) -> Key {
    let device = match span.kind {
        SpanKind::Mapping => DeviceOrdinal::NONE,
        _ => span.device,
    };
    (span.kind, device, span.address)
}

fn reserved(kind: ReservationKind) -> Option<SpanKind> {
    match kind {
        ReservationKind::Pool => Some(SpanKind::Pool),
        ReservationKind::Graphs => Some(SpanKind::Graphs),
        _ => None,
    }
}

/// Whether a span existed at any time of a stretch.
fn is_in(stretch: DetailRange, span: &PastSpan) -> bool {
    let ended = span.ended.is_none_or(|(ended, _)| ended > stretch.from);
    span.made.0 <= stretch.to && ended
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: EventKind, ptr: u64, bytes: u64, aux: u64) -> Event {
        Event {
            kind,
            ptr,
            bytes,
            aux,
            ..Event::default()
        }
    }

    fn followed(
        room: usize,
        stretches: &[DetailRange],
        events: &[(u64, Event)],
    ) -> (PastSpans, Vec<[u64; 3]>) {
        let room = Room {
            run: room,
            stretch: 0,
        };
        let mut follow = FollowSpans::new(room, stretches);
        for (seq, event) in events {
            follow.event(Seq(*seq), event);
        }
        let found = follow.finish();
        let ended = |span: &PastSpan| span.ended.map_or(0, |(seq, _)| seq.0);
        let spans = found.spans.iter();
        let rows = spans
            .map(|span| [span.address, span.made.0.0, ended(span)])
            .collect();
        (found, rows)
    }

    #[test]
    fn an_unmapping_ends_all_mappings_of_its_range() {
        let events = [
            (1, event(EventKind::MAP, 100, 50, 7)),
            (2, event(EventKind::MAP, 150, 50, 8)),
            (3, event(EventKind::MAP, 200, 50, 7)),
            (4, event(EventKind::UNMAP, 100, 100, 0)),
            (5, event(EventKind::MAP, 150, 50, 9)),
        ];
        let (found, rows) = followed(9, &[], &events);
        assert_eq!(rows, [[100, 1, 4], [150, 2, 4], [200, 3, 0], [150, 5, 0]]);
        assert!(found.is_all);
    }

    #[test]
    fn a_full_room_keeps_what_was_there_in_a_stretch() {
        let stretch = DetailRange {
            from: Seq(5),
            to: Seq(6),
        };
        let of = |seq, kind| (seq, event(kind, 100 + (seq - 1) / 2, 1, 0));
        let events: Vec<_> = (1..=10)
            .map(|seq| match seq % 2 {
                1 => of(seq, EventKind::ADDRESS),
                _ => of(seq, EventKind::ADDRESS_END),
            })
            .collect();
        let (found, rows) = followed(2, &[stretch], &events);
        assert_eq!(rows, [[102, 5, 6]]);
        assert_eq!((found.is_all, found.whole), (false, vec![stretch]));
        let wide = DetailRange {
            from: Seq(0),
            to: Seq(9),
        };
        let (found, _) = followed(2, &[wide], &events);
        assert!(found.whole.is_empty());
    }

    #[test]
    fn a_reservation_has_a_life_for_each_of_its_sizes() {
        let resize = |bytes| Event {
            level: Level::PHYSICAL,
            flags: gpumem_capture::EventFlags::STREAM_ORDERED,
            ..event(EventKind::RESIZE, 7, bytes, 0)
        };
        let (_, rows) = followed(9, &[], &[(1, resize(5)), (2, resize(9)), (4, resize(0))]);
        assert_eq!(rows, [[7, 1, 2], [7, 2, 4]]);
    }
}

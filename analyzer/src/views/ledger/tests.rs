//! Random programs on the physical level: all their ledgers have the right sums.

use std::collections::{BTreeMap, BTreeSet};

use gpumem_capture::{
    DeviceOrdinal, Event, EventFlags, EventKind, Level, Nanos, Record, Seq, StackId,
};

use super::{Asked, By, Kind, Ledger, LedgerAt, LedgerWatch};
use crate::replay::{At, Replay};
use crate::watch::Watch as _;

const PAGE: u64 = 2 << 20;
const STREAMS: EventFlags = EventFlags::CONTEXT.with(EventFlags::STREAM_ORDERED);

/// Random numbers, a program's events, and the expected figures of the card.
#[derive(Default)]
struct Program {
    seed: u32,
    events: Vec<(Seq, Event)>,
    physical: BTreeMap<(u64, u16), u64>,
    /// The expected figures after each event, and NVML's bytes beyond them.
    books: Vec<u64>,
    tensors: BTreeMap<u64, u64>,
    segments: Vec<(u64, u64)>,
    handles: Vec<(u64, u64, u64)>,
    asked: Vec<(u64, u64, EventFlags)>,
    next: u64,
    /// Existing contexts and modules.
    begun: BTreeSet<(u64, u16)>,
}

impl Program {
    fn random(&mut self, below: u32) -> u32 {
        self.seed = self
            .seed
            .wrapping_mul(1_664_525)
            .wrapping_add(1_013_904_223);
        (self.seed >> 8) % below
    }

    fn event(&mut self, event: Event) {
        let seq = self.events.len() as u64 + 1;
        let stack = self.random(5);
        if event.level == Level::PHYSICAL {
            let id = (event.ptr, event.flags.0);
            match event.kind {
                EventKind::FREE => drop(self.physical.remove(&id)),
                _ => drop(self.physical.insert(id, event.bytes)),
            }
        }
        let time = Nanos(seq * 1000);
        let py_stack = StackId(stack);
        self.events.push((
            Seq(seq),
            Event {
                time,
                py_stack,
                ..event
            },
        ));
        self.books.push(self.physical.values().sum());
    }

    fn of(&mut self, kind: EventKind, level: Level, ptr: u64, bytes: u64, flags: EventFlags) {
        // Addresses below 100 are in no module, so owners are unknown: the pool is found by its tensors.
        self.event(Event {
            kind,
            level,
            ptr,
            bytes,
            flags,
            ..Event::default()
        });
    }

    fn resize(&mut self, ptr: u64, bytes: u64, flags: EventFlags) {
        let aux = self.physical.get(&(ptr, flags.0)).copied().unwrap_or(0);
        let (kind, level) = (EventKind::RESIZE, Level::PHYSICAL);
        self.event(Event {
            kind,
            level,
            ptr,
            bytes,
            aux,
            flags,
            ..Event::default()
        });
    }

    fn address(&mut self, bytes: u64) -> u64 {
        self.next += 1 << 32;
        let at = self.next;
        assert!(bytes < 1 << 32);
        at
    }

    fn step(&mut self) {
        let (alloc, free, none) = (EventKind::ALLOC, EventKind::FREE, EventFlags::NONE);
        let bytes = u64::from(self.random(64 << 20)) + 1;
        let pages = bytes.next_multiple_of(PAGE);
        match self.random(12) {
            0 | 1 => {
                let at = self.address(bytes);
                self.of(alloc, Level::DRIVER, at, bytes, none);
                self.of(alloc, Level::PHYSICAL, at, pages, none);
                self.segments.push((at, bytes));
            }
            2 | 3 if !self.segments.is_empty() => {
                let which = self.random(self.segments.len() as u32) as usize;
                let (at, size) = self.segments[which];
                let tensor = (size / 3).max(1);
                for slot in 0..2 {
                    let address = at + slot * tensor;
                    if let Some(bytes) = self.tensors.remove(&address) {
                        self.of(free, Level::TENSOR, address, bytes, none);
                    } else {
                        self.tensors.insert(address, tensor);
                        self.of(alloc, Level::TENSOR, address, tensor, none);
                    }
                }
            }
            4 if self.segments.len() > 4 => {
                let which = self.random(self.segments.len() as u32) as usize;
                let (at, bytes) = self.segments.swap_remove(which);
                let inside: Vec<_> = self
                    .tensors
                    .range(at..at + bytes)
                    .map(|(a, b)| (*a, *b))
                    .collect();
                for (address, bytes) in inside {
                    self.tensors.remove(&address);
                    self.of(free, Level::TENSOR, address, bytes, none);
                }
                self.of(free, Level::DRIVER, at, bytes, none);
                self.of(
                    free,
                    Level::PHYSICAL,
                    at,
                    bytes.next_multiple_of(PAGE),
                    none,
                );
            }
            5 => {
                let (at, handle) = (self.address(pages), self.next >> 20);
                let flags = EventFlags::VMM_HANDLE;
                self.of(alloc, Level::DRIVER, handle, pages, flags);
                self.of(alloc, Level::PHYSICAL, handle, pages, flags);
                let (kind, level) = (EventKind::MAP, Level::DRIVER);
                self.event(Event {
                    kind,
                    level,
                    ptr: at,
                    bytes: pages,
                    aux: handle,
                    ..Event::default()
                });
                self.handles.push((at, handle, pages));
            }
            6 if !self.handles.is_empty() => {
                let (at, handle, pages) = self.handles.swap_remove(0);
                self.of(EventKind::UNMAP, Level::DRIVER, at, pages, none);
                self.of(free, Level::DRIVER, handle, pages, EventFlags::VMM_HANDLE);
                self.of(free, Level::PHYSICAL, handle, pages, EventFlags::VMM_HANDLE);
            }
            7 => {
                let flags = [
                    EventFlags::STREAM_ORDERED,
                    EventFlags::GRAPH,
                    EventFlags::MANAGED,
                ];
                let flags = flags[self.random(3) as usize];
                let at = self.address(bytes);
                self.of(alloc, Level::DRIVER, at, bytes, flags);
                self.asked.push((at, bytes, flags));
            }
            8 if !self.asked.is_empty() => {
                let (at, bytes, flags) = self.asked.swap_remove(0);
                self.of(free, Level::DRIVER, at, bytes, flags);
            }
            9 => {
                let flags = [
                    EventFlags::STREAM_ORDERED,
                    EventFlags::GRAPH,
                    EventFlags::CONTEXT,
                    EventFlags::MODULE,
                    STREAMS,
                ];
                let flags = flags[self.random(5) as usize];
                let ptr = (u64::from(self.random(3)) + 1) * 2;
                let bytes = if self.random(4) == 0 { 0 } else { pages };
                let (begins, ends) = match flags {
                    EventFlags::CONTEXT => (EventKind::CONTEXT, EventKind::CONTEXT_END),
                    EventFlags::MODULE => (EventKind::MODULE_LOAD, EventKind::MODULE_UNLOAD),
                    STREAMS => {
                        if self.begun.contains(&(ptr, EventFlags::CONTEXT.0)) {
                            self.resize(ptr | 1, bytes, STREAMS);
                        }
                        return;
                    }
                    _ => return self.resize(ptr, bytes, flags),
                };
                // A reading finds the bytes later, or never.
                if self.begun.insert((ptr, flags.0)) {
                    self.of(begins, Level::PHYSICAL, ptr, 0, none);
                } else if bytes == 0 {
                    self.begun.remove(&(ptr, flags.0));
                    if flags == EventFlags::CONTEXT {
                        self.resize(ptr | 1, 0, STREAMS);
                    }
                    self.of(ends, Level::PHYSICAL, ptr, 0, none);
                    self.resize(ptr, 0, flags);
                } else {
                    self.resize(ptr, bytes, flags);
                }
            }
            10 => {
                let physical = *self.books.last().unwrap_or(&0);
                let process = physical + u64::from(self.random(3)) * bytes;
                let others = u64::from(self.random(100)) << 20;
                let kind = EventKind::SAMPLE;
                self.event(Event {
                    kind,
                    ptr: physical,
                    bytes: process,
                    aux: others,
                    ..Event::default()
                });
                let used = process + others + (9 << 20);
                let kind = EventKind::CARD;
                self.event(Event {
                    kind,
                    ptr: 80 << 30,
                    bytes: used,
                    aux: 9 << 20,
                    ..Event::default()
                });
            }
            _ => {}
        }
    }
}

/// The growth until `time` of contexts, their streams and modules that exist after the event at `index`. Each counts
/// only until it shrinks or begins again.
fn growth(program: &Program, index: usize, time: u64) -> u64 {
    let of_context = |ptr| vec![(ptr, EventFlags::CONTEXT.0), (ptr | 1, STREAMS.0)];
    let begins = |event: &Event| match event.kind {
        EventKind::CONTEXT => of_context(event.ptr),
        EventKind::MODULE_LOAD => vec![(event.ptr, EventFlags::MODULE.0)],
        _ => Vec::new(),
    };
    let (before, after) = program.events.split_at(index + 1);
    let mut there = BTreeSet::new();
    for (_, event) in before {
        there.extend(begins(event));
        match event.kind {
            EventKind::CONTEXT_END => there.retain(|id| !of_context(event.ptr).contains(id)),
            EventKind::MODULE_UNLOAD => drop(there.remove(&(event.ptr, EventFlags::MODULE.0))),
            _ => {}
        }
    }
    let mut sum = 0;
    for (_, event) in after.iter().take_while(|(_, event)| event.time.0 < time) {
        there.retain(|id| !begins(event).contains(id));
        let id = (event.ptr, event.flags.0);
        if event.kind == EventKind::RESIZE && there.contains(&id) {
            sum += event.bytes.saturating_sub(event.aux);
            if event.bytes < event.aux {
                there.remove(&id);
            }
        }
    }
    sum
}

#[test]
fn the_rows_are_the_physical_level_and_what_nvml_saw_beyond_it() {
    let nvml = [
        Kind::Managed,
        Kind::OtherProcesses,
        Kind::DriverReserved,
        Kind::NoProcess,
        Kind::Unexplained,
    ];
    let (mut compared, mut grown) = (0, 0);
    for seed in 1..6 {
        let mut program = Program {
            seed,
            ..Program::default()
        };
        for _ in 0..400 {
            program.step();
        }
        let mut first = Replay::new(At::Peak);
        for (seq, event) in &program.events {
            first.feed(Record::Event(*seq, event));
        }
        let level = first.counters(DeviceOrdinal(0), Level::PHYSICAL);
        assert_eq!(Some(&level.live), program.books.last());
        for (index, (seq, event)) in program.events.iter().enumerate().step_by(7) {
            let totals = [By::Kind, By::Owner, By::Line].map(|by| {
                let at = LedgerAt::At(*seq);
                let asked = Asked {
                    at,
                    by,
                    device: None,
                };
                let ledger = of_events(&first, &program.events, asked).remove(0);
                let given: i64 = ledger
                    .rows
                    .iter()
                    .filter(|row| !nvml.contains(&row.kind))
                    .map(|row| row.bytes)
                    .sum();
                let later = ledger
                    .contexts_and_code_ns
                    .map_or(0, |time| growth(&program, index, time));
                grown += u32::from(later > 0);
                let books = program.books[index] + later;
                assert_eq!(given, books as i64, "seed {seed}, after {event:?}");
                assert_eq!(ledger.physical_bytes, Some(books));
                let all: i64 = ledger.rows.iter().map(|row| row.bytes).sum();
                assert_eq!(ledger.bytes as i64, all);
                // NVML's figure of the card, adjusted by allocations until it was read.
                if let (Some(used), Some(reading)) = (ledger.nvml_used_bytes, ledger.reading) {
                    let moved = books as i64 - reading.physical_bytes as i64;
                    assert_eq!(all, used as i64 + moved, "seed {seed}, after {event:?}");
                    compared += 1;
                }
                ledger.bytes
            });
            assert_eq!(totals, [totals[0]; 3]);
        }
    }
    assert!(compared > 500 && grown > 50, "{compared} {grown}");
}

/// Ledgers after a second pass over these events.
fn of_events(first: &Replay, events: &[(Seq, Event)], asked: Asked) -> Vec<Ledger> {
    let mut watch = LedgerWatch::new(first, asked);
    let mut replay = Replay::new(At::End);
    for (seq, event) in events {
        let record = Record::Event(*seq, event);
        watch.before(&replay, &record);
        let effect = replay.feed(record);
        watch.after(&replay, record, effect);
    }
    watch.finish(Some(&replay))
}

//! The program's state in the model, and in the tracker's events.

use std::collections::{BTreeMap, BTreeSet};

use gpumem_capture::{DeviceOrdinal, Event, EventFlags, EventKind, Level, Seq};
use gpumem_tracker::{Block, Key, Origin, Tracker};

pub const MIB: u64 = 1 << 20;
pub const PAGE: u64 = 2 * MIB;
pub const HANDLE: EventFlags = EventFlags::VMM_HANDLE;
pub const POOLED: EventFlags = EventFlags::STREAM_ORDERED;
/// Where graphs' nodes allocate.
pub const NODES: u64 = 1 << 40;

/// A block by the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Real {
    pub bytes: u64,
    pub device: u8,
    pub owner: u64,
    pub flags: EventFlags,
}

/// A handle by the model: who holds it, one name for each hold.
#[derive(Clone, Debug, Default)]
pub struct Shared {
    pub device: u8,
    pub is_object: bool,
    pub holds: BTreeSet<u64>,
}

/// A context by the model; the primary one of its device, if the program did not create it.
#[derive(Clone, Copy, Debug)]
pub struct Owner {
    pub device: u8,
    pub created: bool,
}

/// Addresses that nodes allocate, with the bytes, or free.
pub type Nodes = Vec<(u64, Option<u64>)>;

/// The program's view, the tracker, and what its events say.
#[derive(Default)]
pub struct World {
    pub tracker: Tracker,
    pub next: u64,
    pub blocks: BTreeMap<(bool, u64), Real>,
    pub handles: BTreeMap<u64, Shared>,
    /// Address to handle; each is a hold of that name.
    pub mappings: BTreeMap<u64, u64>,
    /// Object and offset to handle.
    pub bindings: BTreeMap<(u64, u64), u64>,
    pub aliases: BTreeMap<u64, (u32, u64)>,
    pub contexts: BTreeMap<u64, Owner>,
    /// Which pools are destroyed.
    pub pools: BTreeMap<u64, bool>,
    pub graphs: BTreeMap<u64, Nodes>,
    pub execs: BTreeMap<u64, (Nodes, bool)>,
    // By the events.
    pub said: BTreeMap<(bool, u64), Real>,
    pub given: BTreeMap<(u8, u64), u64>,
    pub reserved: BTreeMap<u64, u64>,
    pub said_aliases: BTreeSet<u64>,
    pub said_mappings: BTreeSet<u64>,
    pub said_contexts: BTreeSet<u64>,
    pub frees: BTreeMap<u64, (bool, u64)>,
    pub seq: u64,
    pub unknown: u64,
}

pub fn key(is_handle: bool, ptr: u64) -> Key {
    Key {
        level: Level::DRIVER,
        is_handle,
        ptr,
    }
}

impl World {
    pub fn fresh(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Reads the events, which must continue where the last read ended.
    pub fn read(&mut self) {
        while let Some(event) = self.tracker.unwritten().copied() {
            self.seq += 1;
            self.tracker.written(Some(Seq(self.seq)));
            match event.level {
                Level::PHYSICAL => self.read_physical(&event),
                _ => self.read_driver(&event),
            }
        }
        let (pushed, written) = self.tracker.progress();
        assert_eq!(pushed, written);
        assert_eq!(self.tracker.take_missed_releases(), 0);
    }

    pub fn read_physical(&mut self, event: &Event) {
        let place = (event.device.0, event.ptr);
        match event.kind {
            EventKind::ALLOC => {
                assert_eq!(self.given.insert(place, event.bytes), None, "{event:?}")
            }
            EventKind::FREE => {
                assert_eq!(self.given.remove(&place), Some(event.bytes), "{event:?}")
            }
            EventKind::RESIZE => {
                let before = self.reserved.insert(event.ptr, event.bytes).unwrap_or(0);
                assert_eq!(before, event.aux);
            }
            _ => panic!("{event:?}"),
        }
    }

    pub fn read_driver(&mut self, event: &Event) {
        let is_handle = event.flags.contains(HANDLE);
        let place = (is_handle, event.ptr);
        let kinds = EventFlags::VMM_HANDLE
            .with(EventFlags::ARRAY)
            .with(POOLED)
            .with(EventFlags::GRAPH);
        let real = Real {
            bytes: event.bytes,
            device: event.device.0,
            owner: 0,
            flags: EventFlags(event.flags.0 & kinds.0),
        };
        match event.kind {
            EventKind::ALLOC => assert_eq!(self.said.insert(place, real), None, "{event:?}"),
            EventKind::FREE if event.flags.contains(EventFlags::UNKNOWN_POINTER) => {
                self.unknown += 1
            }
            EventKind::FREE => {
                assert_eq!(self.said.remove(&place), Some(real), "{event:?}");
                self.frees.insert(self.seq, place);
            }
            EventKind::CANCEL => {
                assert_eq!(
                    self.frees.remove(&event.aux),
                    Some(place),
                    "the FREE that it names"
                );
                assert_eq!(self.said.insert(place, real), None, "{event:?}");
            }
            EventKind::ALIAS if is_handle => {}
            EventKind::ALIAS => assert!(self.said_aliases.insert(event.ptr), "{event:?}"),
            EventKind::ALIAS_END if is_handle => {}
            EventKind::ALIAS_END => assert!(self.said_aliases.remove(&event.ptr), "{event:?}"),
            EventKind::MAP => assert!(self.said_mappings.insert(event.ptr), "{event:?}"),
            EventKind::UNMAP => assert!(self.said_mappings.remove(&event.ptr), "{event:?}"),
            EventKind::CONTEXT => assert!(self.said_contexts.insert(event.ptr), "{event:?}"),
            EventKind::CONTEXT_END if event.ptr == 0 => {
                let primary = |one: &u64| {
                    self.contexts
                        .get(one)
                        .is_some_and(|of| !of.created && of.device == event.device.0)
                };
                self.said_contexts.retain(|one| !primary(one));
            }
            EventKind::CONTEXT_END => assert!(self.said_contexts.remove(&event.ptr), "{event:?}"),
            EventKind::NODE => {}
            _ => panic!("{event:?}"),
        }
    }

    /// The physical memory behind the model's blocks: every touched page, whole handles, whole arrays.
    pub fn touched(&self) -> u64 {
        let (mut pages, mut own) = (BTreeSet::new(), 0);
        for ((is_handle, ptr), real) in &self.blocks {
            if real.flags.contains(POOLED) || real.flags.contains(EventFlags::GRAPH) {
            } else if *is_handle {
                own += real.bytes;
            } else if real.flags.contains(EventFlags::ARRAY) {
                own += real.bytes.div_ceil(PAGE) * PAGE;
            } else {
                pages.extend(ptr / PAGE..(ptr + real.bytes).div_ceil(PAGE));
            }
        }
        own + pages.len() as u64 * PAGE
    }

    pub fn compare(&mut self) {
        self.read();
        let blocks: BTreeMap<_, _> = self
            .blocks
            .iter()
            .map(|(place, real)| (*place, Real { owner: 0, ..*real }))
            .collect();
        assert_eq!(self.said, blocks);
        let known: BTreeSet<_> = self
            .tracker
            .blocks()
            .map(|(key, _)| (key.is_handle, key.ptr))
            .collect();
        assert_eq!(known, blocks.keys().copied().collect());
        assert_eq!(self.given.values().sum::<u64>(), self.touched());
        assert_eq!(self.said_mappings, self.mappings.keys().copied().collect());
        let opened = self.aliases.keys().copied();
        let objects = self
            .handles
            .iter()
            .filter(|(_, one)| one.is_object)
            .map(|(handle, _)| *handle);
        assert_eq!(self.said_aliases, opened.chain(objects).collect());
        assert_eq!(self.said_contexts, self.contexts.keys().copied().collect());
        assert!(
            self.handles
                .iter()
                .all(|(handle, one)| self.tracker.handle_device(*handle)
                    == Some(DeviceOrdinal(one.device)))
        );
    }

    pub fn any<T: Copy>(all: impl Iterator<Item = T>, pick: usize) -> Option<T> {
        let all: Vec<T> = all.collect();
        (!all.is_empty()).then(|| all[pick % all.len()])
    }

    pub fn allocate(&mut self, is_handle: bool, ptr: u64, real: Real) {
        let Real {
            bytes,
            device,
            owner,
            flags,
        } = real;
        let device = DeviceOrdinal(device);
        let block = Block {
            bytes,
            context: owner,
            device,
            flags,
            ..Block::default()
        };
        let origin = Origin::default();
        match is_handle {
            true => self.tracker.handle_made(key(true, ptr), block, 0, origin),
            false => self.tracker.allocated(key(false, ptr), block, 0, origin),
        }
        self.blocks.insert((is_handle, ptr), real);
    }

    /// Removes a reference to a handle, and perhaps the handle and what it holds.
    pub fn drop_hold(&mut self, handle: u64, hold: u64) {
        let Some(shared) = self.handles.get_mut(&handle) else {
            return;
        };
        shared.holds.remove(&hold);
        if !shared.holds.is_empty() {
            return;
        }
        let is_object = shared.is_object;
        self.handles.remove(&handle);
        self.blocks.remove(&(true, handle));
        if is_object {
            let bound: Vec<_> = self
                .bindings
                .iter()
                .filter(|((object, _), _)| *object == handle)
                .map(|(place, held)| (*place, *held))
                .collect();
            for ((object, offset), held) in bound {
                self.bindings.remove(&(object, offset));
                self.drop_hold(held, offset);
            }
        }
    }
}

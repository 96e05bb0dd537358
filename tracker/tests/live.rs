//! Random programs of blocks, handles, mappings, aliases, pools, graphs and contexts against a model that keeps sets and counts
//! nothing: no driver, no process, no simulator.
//!
//! After each call, what is live by the events that the tracker queued is what is live by the model, and what the card gave
//! is what the model's blocks touch. A call that fails leaves everything as it was.

use std::collections::{BTreeMap, BTreeSet};

use gpumem_capture::{DeviceOrdinal, Event, EventFlags, EventKind, Level, Seq};
use gpumem_tracker::{Alias, Block, Interest, Key, Kind, Node, NodeWork, Origin, Tracker};
use proptest::prelude::*;

const MIB: u64 = 1 << 20;
const PAGE: u64 = 2 * MIB;
const HANDLE: EventFlags = EventFlags::VMM_HANDLE;
const POOLED: EventFlags = EventFlags::STREAM_ORDERED;
/// Where graphs' nodes allocate.
const NODES: u64 = 1 << 40;

/// What a program does. Numbers pick among what there is; `fails`: the call returns an error.
#[derive(Clone, Copy, Debug)]
enum Op {
    Allocate {
        kib: u64,
        array: bool,
        pick: usize,
    },
    Free {
        pick: usize,
        fails: bool,
    },
    FreeUnknown {
        fails: bool,
    },
    Create {
        mib: u64,
    },
    Retain {
        pick: usize,
    },
    Release {
        pick: usize,
        fails: bool,
    },
    Map {
        pick: usize,
    },
    Unmap {
        pick: usize,
        more: bool,
        fails: bool,
    },
    Object,
    Bind {
        pick: usize,
        object: usize,
    },
    Unbind {
        pick: usize,
    },
    Open {
        pick: usize,
    },
    Close {
        pick: usize,
        fails: bool,
    },
    MakeContext {
        created: bool,
    },
    EndContext {
        pick: usize,
        fails: bool,
    },
    AllocateFromPool {
        pool: u64,
        kib: u64,
    },
    EndPool {
        pool: u64,
        fails: bool,
    },
    MakePool {
        pool: u64,
    },
    Ask,
    AddNodes {
        graph: u64,
        kib: u64,
        frees: bool,
    },
    Instantiate {
        graph: u64,
        frees: bool,
    },
    Launch {
        graph: u64,
        fails: bool,
    },
}

fn ops() -> impl Strategy<Value = Op> {
    let (pick, fails) = (|| 0..64usize, || any::<bool>());
    let (small, few) = (|| 1..6000u64, || 1..4u64);
    prop_oneof![
        8 => (small(), any::<bool>(), pick()).prop_map(|(kib, array, pick)| Op::Allocate { kib, array, pick }),
        6 => (pick(), fails()).prop_map(|(pick, fails)| Op::Free { pick, fails }),
        1 => fails().prop_map(|fails| Op::FreeUnknown { fails }),
        4 => (1..9u64).prop_map(|mib| Op::Create { mib }),
        2 => pick().prop_map(|pick| Op::Retain { pick }),
        4 => (pick(), fails()).prop_map(|(pick, fails)| Op::Release { pick, fails }),
        4 => pick().prop_map(|pick| Op::Map { pick }),
        3 => (pick(), any::<bool>(), fails()).prop_map(|(pick, more, fails)| Op::Unmap { pick, more, fails }),
        1 => Just(Op::Object),
        2 => (pick(), pick()).prop_map(|(pick, object)| Op::Bind { pick, object }),
        1 => pick().prop_map(|pick| Op::Unbind { pick }),
        2 => pick().prop_map(|pick| Op::Open { pick }),
        2 => (pick(), fails()).prop_map(|(pick, fails)| Op::Close { pick, fails }),
        2 => any::<bool>().prop_map(|created| Op::MakeContext { created }),
        1 => (pick(), fails()).prop_map(|(pick, fails)| Op::EndContext { pick, fails }),
        4 => (few(), small()).prop_map(|(pool, kib)| Op::AllocateFromPool { pool, kib }),
        1 => (few(), fails()).prop_map(|(pool, fails)| Op::EndPool { pool, fails }),
        1 => few().prop_map(|pool| Op::MakePool { pool }),
        3 => Just(Op::Ask),
        2 => (few(), small(), any::<bool>()).prop_map(|(graph, kib, frees)| Op::AddNodes { graph, kib, frees }),
        2 => (few(), any::<bool>()).prop_map(|(graph, frees)| Op::Instantiate { graph, frees }),
        3 => (few(), fails()).prop_map(|(graph, fails)| Op::Launch { graph, fails }),
    ]
}

/// A block by the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Real {
    bytes: u64,
    device: u8,
    owner: u64,
    flags: EventFlags,
}

/// A handle by the model: who holds it, one name for each hold.
#[derive(Clone, Debug, Default)]
struct Shared {
    device: u8,
    is_object: bool,
    holds: BTreeSet<u64>,
}

/// A context by the model; the primary one of its device, if the program did not create it.
#[derive(Clone, Copy, Debug)]
struct Owner {
    device: u8,
    created: bool,
}

/// Addresses that nodes allocate, with the bytes, or free.
type Nodes = Vec<(u64, Option<u64>)>;

/// The program's view, the tracker, and what its events say.
#[derive(Default)]
struct World {
    tracker: Tracker,
    next: u64,
    blocks: BTreeMap<(bool, u64), Real>,
    handles: BTreeMap<u64, Shared>,
    /// Address to handle; each is a hold of that name.
    mappings: BTreeMap<u64, u64>,
    /// Object and offset to handle.
    bindings: BTreeMap<(u64, u64), u64>,
    aliases: BTreeMap<u64, (u32, u64)>,
    contexts: BTreeMap<u64, Owner>,
    /// Which pools are destroyed.
    pools: BTreeMap<u64, bool>,
    graphs: BTreeMap<u64, Nodes>,
    execs: BTreeMap<u64, (Nodes, bool)>,
    // By the events.
    said: BTreeMap<(bool, u64), Real>,
    given: BTreeMap<(u8, u64), u64>,
    reserved: BTreeMap<u64, u64>,
    said_aliases: BTreeSet<u64>,
    said_mappings: BTreeSet<u64>,
    said_contexts: BTreeSet<u64>,
    frees: BTreeMap<u64, (bool, u64)>,
    seq: u64,
    unknown: u64,
}

fn key(is_handle: bool, ptr: u64) -> Key {
    Key {
        level: Level::DRIVER,
        is_handle,
        ptr,
    }
}

impl World {
    fn fresh(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Reads the events, which must go on where they ended.
    fn read(&mut self) {
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

    fn read_physical(&mut self, event: &Event) {
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

    fn read_driver(&mut self, event: &Event) {
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

    /// What the card gives for the model's blocks: every page that one touches, whole handles, whole arrays.
    fn touched(&self) -> u64 {
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

    fn compare(&mut self) {
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

    fn any<T: Copy>(all: impl Iterator<Item = T>, pick: usize) -> Option<T> {
        let all: Vec<T> = all.collect();
        (!all.is_empty()).then(|| all[pick % all.len()])
    }

    fn allocate(&mut self, is_handle: bool, ptr: u64, real: Real) {
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

    /// A hold on a handle ends, and perhaps the handle with it, and what it holds.
    fn drop_hold(&mut self, handle: u64, hold: u64) {
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

    fn run(&mut self, op: Op) {
        let origin = Origin::default();
        let primary = |world: &Self, device: u8| {
            world
                .contexts
                .iter()
                .find(|(_, of)| !of.created && of.device == device)
                .map(|(one, _)| *one)
        };
        match op {
            Op::Allocate { kib, array, pick } => {
                let Some((owner, of)) =
                    Self::any(self.contexts.iter().map(|(one, of)| (*one, *of)), pick)
                else {
                    return;
                };
                let flags = if array {
                    EventFlags::ARRAY
                } else {
                    EventFlags::NONE
                };
                // Small blocks lie side by side, on one page or across two; each device has addresses of its own.
                let end = self
                    .blocks
                    .range((false, 0)..(false, NODES))
                    .map(|((_, ptr), real)| ptr + real.bytes)
                    .max()
                    .unwrap_or(0);
                let at = (end.max(1 << 30) + 511) & !511;
                let at = if pick % 3 == 0 {
                    at.next_multiple_of(PAGE)
                } else {
                    at
                };
                let at = if at >> 30 & 1 == u64::from(of.device) {
                    at
                } else {
                    (at >> 30 << 30) + (1 << 30)
                };
                let at = if array { (1 << 48) + self.fresh() } else { at };
                self.allocate(
                    false,
                    at,
                    Real {
                        bytes: kib * 1024,
                        device: of.device,
                        owner,
                        flags,
                    },
                );
            }
            Op::Free { pick, fails } => {
                let plain = self
                    .blocks
                    .iter()
                    .filter(|((is_handle, _), _)| !is_handle)
                    .map(|(place, real)| (*place, *real));
                let Some(((_, ptr), real)) = Self::any(plain, pick) else {
                    return;
                };
                let pending = self
                    .tracker
                    .releasing(key(false, ptr), EventFlags::NONE, origin);
                self.blocks.remove(&(false, ptr));
                self.compare();
                self.tracker.settle(pending, !fails, origin);
                if fails {
                    self.blocks.insert((false, ptr), real);
                }
            }
            Op::FreeUnknown { fails } => {
                let before = self.unknown;
                let pending = self
                    .tracker
                    .releasing(key(false, 1), EventFlags::NONE, origin);
                self.tracker.settle(pending, !fails, origin);
                self.read();
                assert_eq!(self.unknown - before, u64::from(!fails));
            }
            Op::Create { mib } => {
                let (handle, device) = (self.fresh(), (mib % 2) as u8);
                self.allocate(
                    true,
                    handle,
                    Real {
                        bytes: mib * MIB,
                        device,
                        owner: 0,
                        flags: HANDLE,
                    },
                );
                let holds = BTreeSet::from([0]);
                self.handles.insert(
                    handle,
                    Shared {
                        device,
                        is_object: false,
                        holds,
                    },
                );
            }
            Op::Retain { pick } => {
                let Some(handle) = Self::any(self.handles.keys().copied(), pick) else {
                    return;
                };
                assert!(self.tracker.retained(handle));
                let hold = self.fresh() | 1 << 50;
                self.handles.entry(handle).or_default().holds.insert(hold);
            }
            Op::Release { pick, fails } => {
                let held = self
                    .handles
                    .iter()
                    .flat_map(|(handle, one)| one.holds.iter().map(|hold| (*handle, *hold)));
                let by_reference = held.filter(|(_, hold)| *hold == 0 || hold >> 50 == 1);
                let Some((handle, hold)) = Self::any(by_reference, pick) else {
                    return;
                };
                // What was bound to an object that ended is not bound again if the end failed after all.
                let fails = fails && !self.handles[&handle].is_object;
                let pending = self
                    .tracker
                    .handle_releasing(handle, origin)
                    .expect("it is known");
                let before = (self.handles.clone(), self.blocks.clone());
                self.drop_hold(handle, hold);
                self.compare();
                self.tracker.settle(pending, !fails, origin);
                if fails {
                    (self.handles, self.blocks) = before;
                }
            }
            Op::Map { pick } => {
                let Some(handle) = Self::any(self.handles.keys().copied(), pick) else {
                    return;
                };
                let at = (1 << 45) + self.fresh() * PAGE;
                self.tracker.mapped(at, PAGE, handle, origin);
                assert_eq!(self.tracker.handle_at(at + 5), Some(handle));
                self.mappings.insert(at, handle);
                self.handles.entry(handle).or_default().holds.insert(at);
            }
            Op::Unmap { pick, more, fails } => {
                let Some(at) = Self::any(self.mappings.keys().copied(), pick) else {
                    return;
                };
                let end = if more { at + 8 * PAGE } else { at + PAGE };
                let before = (
                    self.handles.clone(),
                    self.blocks.clone(),
                    self.mappings.clone(),
                );
                let fails = fails && !self.handles.values().any(|one| one.is_object);
                let pending = self.tracker.unmapping(at, end, origin);
                let gone: Vec<_> = self
                    .mappings
                    .range(at..end)
                    .map(|(at, handle)| (*at, *handle))
                    .collect();
                for (at, handle) in gone {
                    self.mappings.remove(&at);
                    self.drop_hold(handle, at);
                }
                self.compare();
                self.tracker.settle(pending, !fails, origin);
                if fails {
                    (self.handles, self.blocks, self.mappings) = before;
                }
            }
            Op::Object => {
                let object = self.fresh();
                self.tracker
                    .handle_opened(object, Alias::default(), 0, origin);
                let holds = BTreeSet::from([0]);
                self.handles.insert(
                    object,
                    Shared {
                        device: DeviceOrdinal::default().0,
                        is_object: true,
                        holds,
                    },
                );
            }
            Op::Bind { pick, object } => {
                let objects = self
                    .handles
                    .iter()
                    .filter(|(_, one)| one.is_object)
                    .map(|(handle, _)| *handle);
                let plain = self
                    .handles
                    .iter()
                    .filter(|(_, one)| !one.is_object)
                    .map(|(handle, _)| *handle);
                let (Some(object), Some(handle)) =
                    (Self::any(objects, object), Self::any(plain, pick))
                else {
                    return;
                };
                let offset = self.fresh() | 1 << 51;
                let alias = Alias {
                    flags: HANDLE,
                    ..Alias::default()
                };
                self.tracker.bound(
                    (object, DeviceOrdinal(0), offset),
                    alias,
                    Some(handle),
                    0,
                    origin,
                );
                self.bindings.insert((object, offset), handle);
                self.handles.entry(handle).or_default().holds.insert(offset);
            }
            Op::Unbind { pick } => {
                let Some(((object, offset), handle)) = Self::any(
                    self.bindings.iter().map(|(place, held)| (*place, *held)),
                    pick,
                ) else {
                    return;
                };
                let alias = Alias {
                    flags: HANDLE,
                    ..Alias::default()
                };
                self.tracker
                    .unbound((object, DeviceOrdinal(0), offset), alias, origin);
                self.bindings.remove(&(object, offset));
                self.drop_hold(handle, offset);
            }
            Op::Open { pick } => {
                let Some((context, of)) =
                    Self::any(self.contexts.iter().map(|(one, of)| (*one, *of)), pick)
                else {
                    return;
                };
                let again = Self::any(self.aliases.keys().copied(), pick).filter(|_| pick % 2 == 0);
                let ptr = again.unwrap_or_else(|| (1 << 46) + self.next);
                self.next += 1;
                let alias = Alias {
                    context,
                    device: DeviceOrdinal(of.device),
                    ..Alias::default()
                };
                self.tracker.opened(ptr, alias, 0, origin);
                self.aliases.entry(ptr).or_insert((0, context)).0 += 1;
            }
            Op::Close { pick, fails } => {
                let Some(ptr) = Self::any(self.aliases.keys().copied(), pick) else {
                    return;
                };
                let pending = self.tracker.closing(ptr, origin).expect("it is known");
                let before = self.aliases.clone();
                let opened = self.aliases.entry(ptr).or_default();
                opened.0 -= 1;
                if opened.0 == 0 {
                    self.aliases.remove(&ptr);
                }
                self.compare();
                self.tracker.settle(pending, !fails, origin);
                if fails {
                    self.aliases = before;
                }
            }
            Op::MakeContext { created } => {
                let device = (self.next % 2) as u8;
                if !created && primary(self, device).is_some() {
                    return;
                }
                let context = (1 << 47) + self.fresh();
                self.tracker
                    .context_made(context, DeviceOrdinal(device), created, 0, origin);
                self.contexts.insert(context, Owner { device, created });
            }
            Op::EndContext { pick, fails } => self.end_context(pick, fails),
            Op::AllocateFromPool { pool, kib } => {
                if self.pools.get(&pool) == Some(&true) {
                    return;
                }
                self.pools.insert(pool, false);
                let at = (1 << 42) + self.fresh() * (16 * MIB);
                let real = Real {
                    bytes: kib * 1024,
                    device: 0,
                    owner: pool,
                    flags: POOLED,
                };
                // The driver has given it when it is asked.
                self.blocks.insert((false, at), real);
                self.ask(Some(pool));
                self.allocate(false, at, real);
            }
            Op::EndPool { pool, fails } => {
                if self.pools.get(&pool) != Some(&false) {
                    return;
                }
                self.ask(None);
                let pending = self.tracker.pool_ending(pool, None, origin);
                self.tracker.settle(pending, !fails, origin);
                self.pools.insert(pool, !fails);
            }
            Op::MakePool { pool } => {
                if self.pools.get(&pool) == Some(&true) {
                    let was_destroyed = self.tracker.outlives_its_end(pool).is_some();
                    assert_eq!(self.tracker.pool_made(pool), was_destroyed);
                    self.pools.insert(pool, false);
                }
            }
            Op::Ask => {
                self.ask(None);
                for (pool, is_destroyed) in &self.pools {
                    let is_used = self
                        .blocks
                        .values()
                        .any(|real| real.flags.contains(POOLED) && real.owner == *pool);
                    let holds = self.tracker.bytes(Kind::Pool.of(*pool)) != 0;
                    assert_eq!(holds, is_used, "{pool} {is_destroyed}");
                }
            }
            Op::AddNodes { graph, kib, frees } => {
                let ptr = NODES + self.fresh() * (16 * MIB);
                let work = NodeWork::Allocate {
                    bytes: kib * 1024,
                    device: DeviceOrdinal(0),
                    flags: EventFlags::GRAPH,
                };
                self.tracker.node_added(
                    graph,
                    Node {
                        handle: 0,
                        ptr,
                        work,
                    },
                    origin,
                );
                let nodes = self.graphs.entry(graph).or_default();
                nodes.push((ptr, Some(kib * 1024)));
                if frees {
                    let work = NodeWork::Free;
                    self.tracker.node_added(
                        graph,
                        Node {
                            handle: 0,
                            ptr,
                            work,
                        },
                        origin,
                    );
                    nodes.push((ptr, None));
                }
                assert!(self.tracker.interest().has(Interest::GRAPHS));
            }
            Op::Instantiate { graph, frees } => {
                self.tracker.instantiated(graph, graph, u64::from(frees));
                let nodes = self.graphs.get(&graph).cloned().unwrap_or_default();
                self.execs.insert(graph, (nodes, frees));
            }
            Op::Launch { graph, fails } => self.launch(graph, fails),
        }
        self.compare();
    }

    fn launch(&mut self, graph: u64, fails: bool) {
        let origin = Origin::default();
        let (nodes, frees_first) = self.execs.get(&graph).cloned().unwrap_or_default();
        let is_live = |world: &Self, ptr| world.blocks.contains_key(&(false, ptr));
        // A driver refuses to run a node whose block is live, unless it frees it first.
        if !frees_first
            && nodes
                .iter()
                .any(|(ptr, bytes)| bytes.is_some() && is_live(self, *ptr))
        {
            return;
        }
        let Some(pending) = self.tracker.launching(graph, 0, origin) else {
            assert!(nodes.is_empty());
            return;
        };
        let before = self.blocks.clone();
        for (ptr, bytes) in &nodes {
            if bytes.is_some() {
                self.blocks.remove(&(false, *ptr));
            }
        }
        self.compare();
        self.tracker.settle(pending, !fails, origin);
        if fails {
            self.blocks = before;
            return;
        }
        for (ptr, bytes) in nodes {
            match bytes {
                Some(bytes) => self.blocks.insert(
                    (false, ptr),
                    Real {
                        bytes,
                        device: 0,
                        owner: 0,
                        flags: EventFlags::GRAPH,
                    },
                ),
                None => self.blocks.remove(&(false, ptr)),
            };
        }
    }

    /// The driver answers what pools hold: as much as their blocks; nothing of a destroyed one.
    fn ask(&mut self, used: Option<u64>) {
        let used = used.map(|pool| (pool, DeviceOrdinal(0)));
        let Some(stale) = self.tracker.questions(used) else {
            return;
        };
        let Some(mut questions) = self.tracker.questions(None) else {
            panic!("there was something to ask")
        };
        for (reservation, _, answer) in &mut questions.of {
            let pool = reservation.handle;
            let of_pool = |real: &&Real| real.flags.contains(POOLED) && real.owner == pool;
            if reservation.kind == Kind::Pool && self.pools.get(&pool) == Some(&false) {
                *answer = Some(
                    self.blocks
                        .values()
                        .filter(of_pool)
                        .map(|real| real.bytes)
                        .sum(),
                );
            }
        }
        self.tracker.answered(&questions, Origin::default());
        // An older question's answer comes last: it says nothing any more.
        self.tracker.answered(&stale, Origin::default());
    }

    fn end_context(&mut self, pick: usize, fails: bool) {
        let origin = Origin::default();
        let Some((context, of)) =
            Self::any(self.contexts.iter().map(|(one, of)| (*one, *of)), pick)
        else {
            return;
        };
        let others = |world: &Self| {
            world
                .contexts
                .iter()
                .any(|(one, other)| *one != context && other.device == of.device)
        };
        let is_last = !others(self);
        let has_primary = self
            .contexts
            .iter()
            .any(|(one, other)| *one != context && other.device == of.device && !other.created);
        let device = DeviceOrdinal(of.device);
        let pending = match of.created {
            true => self
                .tracker
                .context_ending(context, has_primary, origin)
                .expect("it was created"),
            false => self.tracker.primary_ending(device, origin),
        };
        let before = self.blocks.clone();
        let pooled = |real: &Real| real.flags.contains(POOLED);
        self.blocks.retain(|_, real| {
            let of_context = !pooled(real) && real.owner == context;
            let of_device =
                (pooled(real) || real.owner == 0) && real.device == of.device && is_last;
            !(of_context || of_device)
        });
        self.read();
        assert_eq!(self.given.values().sum::<u64>(), self.touched());
        self.tracker.settle(pending, !fails, origin);
        if fails {
            self.blocks = before;
            return;
        }
        self.read();
        self.contexts.remove(&context);
        self.aliases
            .retain(|_, (_, opened_in)| *opened_in != context);
        if is_last {
            self.handles.retain(|_, one| one.device != of.device);
            let handles = &self.handles;
            self.mappings
                .retain(|_, handle| handles.contains_key(handle));
            self.said_mappings = self.mappings.keys().copied().collect();
            self.bindings.retain(|(object, _), handle| {
                handles.contains_key(object) && handles.contains_key(handle)
            });
        }
        assert!(!self.tracker.knows_context(context));
        assert_eq!(
            self.tracker.interest().has(Interest::INACTIVE_CONTEXTS),
            !self.tracker.inactive_contexts().is_empty()
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_live_is_what_the_events_say(program in prop::collection::vec(ops(), 1..150)) {
        let mut world = World::default();
        world.run(Op::MakeContext { created: false });
        for op in program {
            world.run(op);
        }
    }
}

/// A block where another one is live by the tracker: that one's release went unseen.
#[test]
fn what_was_live_at_an_address_that_is_handed_out_again_has_ended() {
    let mut world = World::default();
    let (origin, block) = (
        Origin::default(),
        Block {
            bytes: 5,
            ..Block::default()
        },
    );
    for _ in 0..2 {
        world.tracker.allocated(key(false, PAGE), block, 0, origin);
    }
    assert_eq!(world.tracker.take_missed_releases(), 1);
    world.read();
    assert_eq!(world.said.len(), 1);
    assert_eq!(world.given.values().sum::<u64>(), PAGE);
}

/// The number that a CANCEL names is that of its own FREE, also if another thread's events are written in between, or the FREE
/// itself was lost.
#[test]
fn a_cancel_names_its_free() {
    let (mut tracker, origin) = (Tracker::new(), Origin::default());
    for ptr in [1, 2, 3] {
        tracker.allocated(key(false, ptr), Block::default(), 0, origin);
        tracker.written(Some(Seq(ptr)));
    }
    let first = tracker.releasing(key(false, 1), EventFlags::NONE, origin);
    let second = tracker.releasing(key(false, 2), EventFlags::NONE, origin);
    let third = tracker.releasing(key(false, 3), EventFlags::NONE, origin);
    for seq in [Some(Seq(10)), Some(Seq(11)), None] {
        tracker.written(seq);
    }
    for (pending, named) in [(second, 11), (third, u64::MAX), (first, 10)] {
        tracker.settle(pending, false, origin);
        assert_eq!(tracker.unwritten().map(|event| event.aux), Some(named));
        tracker.written(Some(Seq(20)));
    }
}

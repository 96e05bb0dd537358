//! Random programs: the effect of each call on the model and its calls of the tracker.

use std::collections::BTreeSet;

use gpumem_capture::{DeviceOrdinal, EventFlags, Level};
use gpumem_tracker::{Alias, Interest, Kind, Node, NodeWork, Origin, Place};
use proptest::prelude::*;

use crate::model::{HANDLE, MIB, NODES, Owner, PAGE, POOLED, Real, Shared, World, key};

/// The operations of a program. Numbers select among existing objects; `fails`: the call returns an error.
#[derive(Clone, Copy, Debug)]
pub enum Op {
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

pub fn ops() -> impl Strategy<Value = Op> {
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

impl World {
    pub fn run(&mut self, op: Op) {
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
                // Small blocks are adjacent, on one page or across two; each device has separate addresses.
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
                // Bindings to an object that ended are not restored if the end failed.
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
                // The driver has already allocated it when it is queried.
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
                    assert_eq!(
                        self.tracker
                            .pool_made(pool, Place::Device(DeviceOrdinal(0)), origin),
                        was_destroyed
                    );
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
                    level: Level::DRIVER,
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
}

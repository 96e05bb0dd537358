//! The live map: what is allocated now, by level and address.
//!
//! No guard of the map is ever held across a driver call or across the recording of an event.

use core::hash::BuildHasherDefault;
use std::sync::OnceLock;

use dashmap::DashMap;
use gpumem_capture::{DeviceOrdinal, EventFlags, Level, StackId};
use rustc_hash::FxHasher;

/// Where a block lives: a pointer of one level is never the same block as that of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    pub(crate) level: Level,
    pub(crate) vmm: bool,
    pub(crate) ptr: u64,
}

/// A live block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    pub(crate) bytes: u64,
    /// The context that owns it, or the pool that stream-ordered memory came from; 0: its device alone.
    pub(crate) context: u64,
    pub(crate) device: DeviceOrdinal,
    pub(crate) flags: EventFlags,
    /// The Python stack of its allocation.
    pub(crate) py_stack: StackId,
}

impl Block {
    /// The context that owns it; 0: its device alone.
    pub(crate) fn owner(&self) -> u64 {
        match self.pool() {
            Some(_) => 0,
            None => self.context,
        }
    }

    /// The pool that it came from, if it is stream-ordered.
    pub(crate) fn pool(&self) -> Option<u64> {
        let pooled = self.flags.contains(EventFlags::STREAM_ORDERED);
        pooled.then_some(self.context)
    }
}

type Map = DashMap<Place, Block, BuildHasherDefault<FxHasher>>;

fn map() -> &'static Map {
    static MAP: OnceLock<Map> = OnceLock::new();
    MAP.get_or_init(Map::default)
}

/// Adds a block; the one that was there before, whose release went unseen.
pub(crate) fn insert(place: Place, block: Block) -> Option<Block> {
    map().insert(place, block)
}

/// Takes a block out.
pub(crate) fn remove(place: Place) -> Option<Block> {
    map().remove(&place).map(|(_, block)| block)
}

/// Every block that `wanted` picks, in no order.
pub(crate) fn matching(wanted: impl Fn(&Place, &Block) -> bool) -> Vec<Place> {
    map()
        .iter()
        .filter(|entry| wanted(entry.key(), entry.value()))
        .map(|e| *e.key())
        .collect()
}

/// Goes through all blocks, in no order. `look` may not wait for anything.
pub(crate) fn each(mut look: impl FnMut(&Place, &Block)) {
    map()
        .iter()
        .for_each(|entry| look(entry.key(), entry.value()));
}

/// Whether any block is one that `wanted` picks.
pub(crate) fn any(wanted: impl Fn(&Place, &Block) -> bool) -> bool {
    map().iter().any(|entry| wanted(entry.key(), entry.value()))
}

/// The block at a place.
pub(crate) fn at(place: Place) -> Option<Block> {
    map().get(&place).map(|entry| *entry.value())
}

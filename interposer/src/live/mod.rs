//! The live map: what is allocated now, by level and address.
//!
//! Tensors come and go a thousand times as often as all else and have a table of their own ([`tensors`]):
//! no other look-up goes through them.
//!
//! No guard of the map is ever held across a driver call or across the recording of an event; the tensors' table has
//! no guard but the counters that an event holds.

mod block;
mod line;
mod tensors;

use core::hash::BuildHasherDefault;
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::OnceLock;

use dashmap::DashMap;
use gpumem_capture::{EventFlags, Level, Writer};
use rustc_hash::FxHasher;

pub(crate) use block::Block;
pub(crate) use tensors::{Tensor, Tensors};

/// Where a block lives: a pointer of one level is never the same block as that of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    pub(crate) level: Level,
    pub(crate) vmm: bool,
    pub(crate) ptr: u64,
}

type Map = DashMap<Place, Block, BuildHasherDefault<FxHasher>>;

fn map() -> &'static Map {
    static MAP: OnceLock<Map> = OnceLock::new();
    MAP.get_or_init(Map::default)
}

/// The process's tensors, once there is a capture.
static TENSORS: OnceLock<Tensors> = OnceLock::new();

/// The tensors of the process's one capture.
pub(crate) fn open_tensors(writer: &'static Writer) -> &'static Tensors {
    TENSORS.get_or_init(|| Tensors::new(writer))
}

impl Place {
    /// Whether it is one of the table of tensors.
    #[inline]
    fn is_tensors(&self) -> bool {
        self.level == Level::TENSOR && !self.vmm
    }
}

/// Managed blocks that are live.
static MANAGED: AtomicU64 = AtomicU64::new(0);

/// Counts managed blocks.
fn count(block: &Block, one: u64) {
    if block.flags.contains(EventFlags::MANAGED) {
        MANAGED.fetch_add(one, Ordering::AcqRel);
    }
}

/// Whether any managed memory is live.
pub(crate) fn has_managed() -> bool {
    MANAGED.load(Ordering::Acquire) != 0
}

/// Adds a block that is no tensor; the one that was there before, whose release went unseen.
#[inline]
pub(crate) fn insert(place: Place, block: Block) -> Option<Block> {
    count(&block, 1);
    let stale = map().insert(place, block);
    stale.inspect(|stale| count(stale, u64::MAX))
}

/// Takes a block out that is no tensor.
#[inline]
pub(crate) fn remove(place: Place) -> Option<Block> {
    let removed = map().remove(&place);
    removed
        .map(|(_, block)| block)
        .inspect(|block| count(block, u64::MAX))
}

/// Every block but the tensors that `wanted` picks, in no order: no end of a context, a pool or a device
/// is a tensor's.
pub(crate) fn matching(wanted: impl Fn(&Place, &Block) -> bool) -> Vec<Place> {
    map()
        .iter()
        .filter(|entry| wanted(entry.key(), entry.value()))
        .map(|e| *e.key())
        .collect()
}

/// Goes through all blocks, in no order. `look` may not wait for anything, nor ask for a block.
pub(crate) fn each(mut look: impl FnMut(&Place, &Block)) {
    if let Some(tensors) = TENSORS.get() {
        tensors.each(|ptr, block| {
            let (level, vmm) = (Level::TENSOR, false);
            look(&Place { level, vmm, ptr }, block);
        });
    }
    map()
        .iter()
        .for_each(|entry| look(entry.key(), entry.value()));
}

/// Whether any block but the tensors is one that `wanted` picks.
pub(crate) fn any(wanted: impl Fn(&Place, &Block) -> bool) -> bool {
    map().iter().any(|entry| wanted(entry.key(), entry.value()))
}

/// The block at a place.
pub(crate) fn at(place: Place) -> Option<Block> {
    match place.is_tensors() {
        true => TENSORS.get()?.at(place.ptr),
        false => map().get(&place).map(|entry| *entry.value()),
    }
}

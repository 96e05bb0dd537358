//! Tiles of sparse arrays: physical memory that is mapped into an array instead of at an address.
//!
//! What is mapped holds its handle as a mapping does. An operation may cover a part of what another
//! mapped: what is left of it still holds the handle. The driver maps in the order of a stream; it is
//! recorded when it is asked for, and what that ends is recorded before.

use std::collections::BTreeMap;

use gpumem_capture::{DeviceOrdinal, EventFlags, EventKind, Level};
use gpumem_cuda_abi::{CuArray3dDescriptor, CuArrayMapInfo, CuResult, CuStream};

use super::arrays::{self, MappedLater};
use super::{array_size, vmm};
use crate::call::Call;
use crate::lock::{Guard, Lock};
use crate::record::{self, Remark};
use crate::thread::Thread;

/// What an area is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// An array with deferred mapping, which is mapped as a whole.
    Whole,
    /// A level and a layer of a sparse array, in elements.
    Level(u64),
    /// What the small levels of a layer share, in bytes.
    Tail(u64),
}

/// From where to where, the end excluded, along each extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Area {
    start: [u64; 3],
    end: [u64; 3],
}

impl Area {
    fn new(start: [u64; 3], extent: [u64; 3]) -> Self {
        let mut end = start;
        for (end, extent) in end.iter_mut().zip(extent) {
            *end = end.saturating_add(extent.max(1));
        }
        Self { start, end }
    }

    /// What two areas have in common.
    fn common(&self, other: &Self) -> Option<Self> {
        let mut common = *self;
        for axis in 0..3 {
            common.start[axis] = self.start[axis].max(other.start[axis]);
            common.end[axis] = self.end[axis].min(other.end[axis]);
            if common.start[axis] >= common.end[axis] {
                return None;
            }
        }
        Some(common)
    }

    /// What is left of it without `hole`, which lies inside.
    fn without(mut self, hole: &Self) -> Vec<Self> {
        let mut left = Vec::new();
        for axis in 0..3 {
            if self.start[axis] < hole.start[axis] {
                let mut before = self;
                before.end[axis] = hole.start[axis];
                left.push(before);
            }
            if hole.end[axis] < self.end[axis] {
                let mut after = self;
                after.start[axis] = hole.end[axis];
                left.push(after);
            }
            self.start[axis] = hole.start[axis];
            self.end[axis] = hole.end[axis];
        }
        left
    }
}

/// An area of an array that memory is mapped to.
#[derive(Clone, Copy, Debug)]
struct Tile {
    part: Part,
    area: Area,
    handle: u64,
}

/// What is mapped, by array, never locked across a driver call.
fn mapped() -> Guard<'static, BTreeMap<u64, Vec<Tile>>> {
    static MAPPED: Lock<BTreeMap<u64, Vec<Tile>>> = Lock::new(BTreeMap::new());
    MAPPED.lock()
}

/// An array whose memory is mapped later, if it is known.
fn known(array: u64) -> Option<MappedLater> {
    arrays::mapped_later().get(&array).map(|entry| *entry)
}

/// What an operation means.
fn place(info: &CuArrayMapInfo) -> (Part, Area) {
    const LEVEL: u32 = 0;
    let [first, second, third, fourth] = info.subresource;
    if known(info.resource).is_some_and(|array| array_size::is_deferred(array.descriptor.flags)) {
        (Part::Whole, Area::new([0; 3], [1; 3]))
    } else if info.subresource_type == LEVEL {
        let (low, high) = (|word: u64| word & 0xffff_ffff, |word: u64| word >> 32);
        let start = [low(second), high(second), low(third)];
        let extent = [high(third), low(fourth), high(fourth)];
        (Part::Level(first), Area::new(start, extent))
    } else {
        let layer = first & 0xffff_ffff;
        (Part::Tail(layer), Area::new([second, 0, 0], [third, 1, 1]))
    }
}

/// Bytes of an area; 0 if the array is not known.
fn bytes_of(array: u64, tile: &Tile) -> u64 {
    let extent = |axis: usize| tile.area.end[axis] - tile.area.start[axis];
    match (tile.part, known(array)) {
        (Part::Tail(_), _) => extent(0),
        (Part::Whole, array) => array.map_or(0, |array| array.bytes),
        (Part::Level(_), array) => {
            let area = array.map(|array| CuArray3dDescriptor {
                width: extent(0) as usize,
                height: extent(1) as usize,
                depth: extent(2) as usize,
                ..array.descriptor
            });
            area.as_ref().and_then(array_size::plain).unwrap_or(0)
        }
    }
}

fn remark(thread: &Thread, call: &Call, kind: EventKind, array: u64, tile: &Tile) {
    let device = vmm::device_of(tile.handle).unwrap_or(DeviceOrdinal::NONE);
    let what = Remark {
        ptr: array,
        bytes: bytes_of(array, tile),
        aux: tile.handle,
        device,
        flags: EventFlags::ARRAY,
        with_stacks: kind == EventKind::MAP,
    };
    record::remark(thread, call.api(), kind, Level::DRIVER, what);
}

/// What was unmapped, should it have to be undone.
#[derive(Default)]
pub(super) struct Cleared {
    /// Areas whose end was recorded, with their arrays.
    ended: Vec<(u64, Tile)>,
    /// What was mapped to each array before.
    before: Vec<(u64, Vec<Tile>)>,
    holds: vmm::Undo,
}

impl Cleared {
    /// Records that nothing is mapped any more to an area (`None`: all) of an array.
    fn clear(&mut self, thread: &Thread, call: &Call, array: u64, at: Option<(Part, Area)>) {
        let Some(before) = mapped().get(&array).cloned() else {
            return;
        };
        let (mut left, mut ended) = (Vec::with_capacity(before.len()), Vec::new());
        for tile in &before {
            let hole = match at {
                None => Some(tile.area),
                Some((part, area)) if part == tile.part => tile.area.common(&area),
                Some(_) => None,
            };
            let Some(hole) = hole else {
                left.push(*tile);
                continue;
            };
            for area in tile.area.without(&hole) {
                self.holds.hold(tile.handle);
                left.push(Tile { area, ..*tile });
            }
            ended.push(Tile {
                area: hole,
                ..*tile
            });
        }
        if ended.is_empty() {
            return;
        }
        if left.is_empty() {
            mapped().remove(&array);
        } else {
            mapped().insert(array, left);
        }
        for tile in ended {
            remark(thread, call, EventKind::UNMAP, array, &tile);
            self.holds.unhold(thread, call, tile.handle);
            self.ended.push((array, tile));
        }
        self.before.push((array, before));
    }

    /// Takes it back: the real call failed.
    pub(super) fn undo(self, thread: &Thread, call: &Call) {
        self.holds.apply(thread, call);
        for (array, tile) in &self.ended {
            remark(thread, call, EventKind::MAP, *array, tile);
        }
        mapped().extend(self.before.into_iter().rev());
    }
}

/// Records that an array is about to go, with what is mapped to it.
pub(super) fn about_to_end(thread: &Thread, call: &Call, array: u64) -> Cleared {
    let mut cleared = Cleared::default();
    cleared.clear(thread, call, array, None);
    cleared
}

/// Records that the arrays that `ending` picks are about to go, with what is mapped to them.
pub(super) fn about_to_end_all(
    thread: &Thread,
    call: &Call,
    ending: impl Fn(&MappedLater) -> bool,
) -> Cleared {
    let arrays: Vec<u64> = mapped().keys().copied().collect();
    let mut cleared = Cleared::default();
    for array in arrays {
        if known(array).is_some_and(|array| ending(&array)) {
            cleared.clear(thread, call, array, None);
        }
    }
    cleared
}

/// Forgets what was mapped of handles that are no more: the last context of their device has ended.
pub(super) fn forget() {
    let mut all = mapped();
    for tiles in all.values_mut() {
        tiles.retain(|tile| vmm::device_of(tile.handle).is_some());
    }
    all.retain(|_, tiles| !tiles.is_empty());
}

const MAP: u32 = 1;

/// The operations of a list.
///
/// # Safety
/// `list` is null or points to `count` of them.
unsafe fn operations<'a>(list: *const CuArrayMapInfo, count: u32) -> &'a [CuArrayMapInfo] {
    if list.is_null() {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { core::slice::from_raw_parts(list, count as usize) }
}

/// Records the end of all that the operations of a list replace or unmap.
fn before(thread: &Thread, call: &Call, list: &[CuArrayMapInfo]) -> Cleared {
    let mut cleared = Cleared::default();
    for info in list {
        cleared.clear(thread, call, info.resource, Some(place(info)));
    }
    cleared
}

/// Records what the operations of a list map, one after the other: a later one may replace it again.
fn after(thread: &Thread, call: &Call, list: &[CuArrayMapInfo]) {
    for info in list {
        let (part, area) = place(info);
        if info.operation == MAP {
            // Held before what it replaces is let go: that may be of the same handle.
            vmm::mapped(info.memory.0);
        }
        Cleared::default().clear(thread, call, info.resource, Some((part, area)));
        if info.operation == MAP {
            let handle = info.memory.0;
            let tile = Tile { part, area, handle };
            mapped().entry(info.resource).or_default().push(tile);
            remark(thread, call, EventKind::MAP, info.resource, &tile);
        }
    }
}

macro_rules! mapping {
    ($($name:ident;)*) => {$(
        hook! {
            /// Maps and unmaps tiles of sparse arrays.
            Driver Optional
            fn $name(list: *mut CuArrayMapInfo, count: u32, stream: CuStream) -> CuResult;
            missing CuResult::NOT_INITIALIZED;
            with call, thread, result, held;
            before {
                // SAFETY: the driver is about to read `count` of them there.
                before(thread, &call, unsafe { operations(list, count) })
            }
            after {
                if result.is_success() {
                    // SAFETY: the driver has just read them.
                    after(thread, &call, unsafe { operations(list, count) });
                } else if let Some(cleared) = held {
                    cleared.undo(thread, &call);
                }
            }
        }
    )*};
}

mapping! {
    cuMemMapArrayAsync;
    cuMemMapArrayAsync_ptsz;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hole_leaves_the_rest() {
        let whole = Area::new([0, 0, 0], [8, 4, 2]);
        let volume = |area: &Area| -> u64 {
            let extents = area.end.iter().zip(area.start);
            extents.map(|(end, start)| end - start).product()
        };
        for hole in [
            Area::new([0, 0, 0], [8, 4, 2]),
            Area::new([2, 1, 0], [3, 2, 1]),
            Area::new([0, 0, 1], [8, 4, 1]),
            Area::new([7, 3, 1], [1, 1, 1]),
        ] {
            let left = whole.without(&hole);
            let sum: u64 = left.iter().map(volume).sum();
            assert_eq!(sum + volume(&hole), volume(&whole), "{hole:?}");
            for (place, one) in left.iter().enumerate() {
                assert_eq!(one.common(&hole), None);
                assert!(
                    left.iter()
                        .skip(place + 1)
                        .all(|other| one.common(other).is_none())
                );
            }
        }
        assert_eq!(whole.common(&Area::new([8, 0, 0], [1, 1, 1])), None);
    }
}

//! Tiles of sparse arrays: physical memory that is mapped into an array instead of at an address.
//!
//! A tile holds its handle as a mapping does. The driver maps in the order of a stream; it is recorded
//! when it is asked for.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use gpumem_capture::{DeviceOrdinal, EventFlags, EventKind, Level};
use gpumem_cuda_abi::{CuArray3dDescriptor, CuArrayMapInfo, CuResult, CuStream};

use super::{array_size, arrays, vmm};
use crate::call::Call;
use crate::record::{self, Remark};
use crate::thread::Thread;

/// Where a tile lies: the array, and the subresource as the caller describes it.
type Place = (u64, u32, [u64; 4]);

/// A tile: its bytes and the handle behind it.
#[derive(Clone, Copy)]
struct Tile {
    bytes: u64,
    handle: u64,
}

/// The tiles that are mapped, never locked across a driver call.
fn mapped() -> MutexGuard<'static, BTreeMap<Place, Tile>> {
    static MAPPED: Mutex<BTreeMap<Place, Tile>> = Mutex::new(BTreeMap::new());
    MAPPED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes of a tile; 0 if the array is not known.
fn bytes_of(info: &CuArrayMapInfo) -> u64 {
    const LEVEL: u32 = 0;
    let [_, _, third, fourth] = info.subresource;
    if info.subresource_type != LEVEL {
        return third; // of the tail of a mipmapped array
    }
    let (width, height, depth) = (third >> 32, fourth & 0xffff_ffff, fourth >> 32);
    let array = arrays::sparse().get(&info.resource).map(|entry| *entry);
    let tile = array.map(|array| CuArray3dDescriptor {
        width: width as usize,
        height: height as usize,
        depth: depth as usize,
        ..array
    });
    tile.as_ref().and_then(array_size::plain).unwrap_or(0)
}

fn remark(thread: &Thread, call: &Call, kind: EventKind, array: u64, tile: Tile) {
    let device = vmm::device_of(tile.handle).unwrap_or(DeviceOrdinal::NONE);
    let what = Remark {
        ptr: array,
        bytes: tile.bytes,
        aux: tile.handle,
        device,
        flags: EventFlags::ARRAY,
        with_stacks: kind == EventKind::MAP,
    };
    record::remark(thread, call.api(), kind, Level::DRIVER, what);
}

/// Records one operation of a list.
fn done(thread: &Thread, call: &Call, info: &CuArrayMapInfo) {
    const MAP: u32 = 1;
    const UNMAP: u32 = 2;
    let place = (info.resource, info.subresource_type, info.subresource);
    if info.operation == MAP || info.operation == UNMAP {
        let before = mapped().remove(&place);
        if let Some(tile) = before {
            remark(thread, call, EventKind::UNMAP, info.resource, tile);
            vmm::unmapped(thread, call, tile.handle);
        }
    }
    if info.operation == MAP {
        let tile = Tile {
            bytes: bytes_of(info),
            handle: info.memory.0,
        };
        mapped().insert(place, tile);
        vmm::mapped(tile.handle);
        remark(thread, call, EventKind::MAP, info.resource, tile);
    }
}

/// Forgets the tiles of an array that is gone; what only they held ends with them.
pub(super) fn forget(thread: &Thread, call: &Call, array: u64) {
    let gone: Vec<(Place, Tile)> = {
        let mut all = mapped();
        let first = (array, 0, [0; 4]);
        let places: Vec<Place> = all
            .range(first..)
            .take_while(|(place, _)| place.0 == array)
            .map(|(place, _)| *place)
            .collect();
        let take = |place: Place| all.remove(&place).map(|tile| (place, tile));
        places.into_iter().filter_map(take).collect()
    };
    for (_, tile) in gone {
        remark(thread, call, EventKind::UNMAP, array, tile);
        vmm::unmapped(thread, call, tile.handle);
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
            before {}
            after {
                if result.is_success() && !list.is_null() {
                    for place in 0..count as usize {
                        // SAFETY: the driver has just read `count` of them there.
                        done(thread, &call, unsafe { &*list.add(place) });
                    }
                }
            }
        }
    )*};
}

mapping! {
    cuMemMapArrayAsync;
    cuMemMapArrayAsync_ptsz;
}

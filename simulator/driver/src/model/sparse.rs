//! Arrays whose memory is mapped: sparse ones, tile by tile, and those with deferred mapping, whole.
//!
//! A tile has 64 KiB. The array itself has addresses and no memory; mapping a tile holds the
//! physical handle as any mapping does. Which bytes of a handle hold which element is the
//! hardware's own affair: contents stay with the array.

use super::State;
use super::array::{Array, Layout};
use crate::ffi::{Answer, require};
use gpumem_cuda_abi::{CuArray3dDescriptor, CuResult};
use std::collections::BTreeSet;

/// Bytes of a tile.
pub const TILE_BYTES: u64 = 64 << 10;

/// `CU_MEM_CREATE_USAGE_TILE_POOL`.
const TILE_POOL: u16 = 1;

/// A place in an array that memory can be mapped to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tile {
    /// All of an array with deferred mapping.
    Whole,
    /// A tile: level, layer, and its place in tiles.
    At(u32, u32, [u32; 3]),
    /// A tile of what the small levels share: layer, and which one.
    Tail(u32, u64),
}

/// What an entry of `cuMemMapArrayAsync` means by an array.
#[derive(Clone, Copy, Debug)]
pub enum Region {
    /// Part of a level, in elements.
    Level {
        /// The level.
        level: u32,
        /// The layer.
        layer: u32,
        /// Where it starts.
        offset: [u32; 3],
        /// How far it goes.
        extent: [u32; 3],
    },
    /// Part of what the small levels share, in bytes.
    Tail {
        /// The layer.
        layer: u32,
        /// Where it starts.
        offset: u64,
        /// How far it goes.
        bytes: u64,
    },
}

/// One entry of `cuMemMapArrayAsync`.
#[derive(Clone, Copy, Debug)]
pub struct Operation {
    /// The array.
    pub array: usize,
    /// Whether it must be a mipmapped one.
    pub mipmapped: bool,
    /// Which part of it.
    pub region: Region,
    /// The handle to map, and from which byte on; `None` unmaps.
    pub memory: Option<(u64, u64)>,
    /// Devices meant, by bit.
    pub devices: u32,
}

/// How a sparse array is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Division {
    /// Elements of a tile along each extent.
    pub tile: [u32; 3],
    /// The first level that shares tiles with those after it.
    pub tail_level: u32,
    /// Bytes of what they share, for each layer; 0 if there is none.
    pub tail_bytes: u64,
}

/// Elements of a tile: the hardware's standard shapes.
fn tile(element: u64, flat: bool) -> Option<[u32; 3]> {
    Some(match (element, flat) {
        (1, true) => [256, 256, 1],
        (2, true) => [256, 128, 1],
        (4, true) => [128, 128, 1],
        (8, true) => [128, 64, 1],
        (16, true) => [64, 64, 1],
        (1, false) => [64, 32, 32],
        (2, false) => [32, 32, 32],
        (4, false) => [32, 32, 16],
        (8, false) => [32, 16, 16],
        (16, false) => [16, 16, 16],
        _ => return None,
    })
}

fn extents(descriptor: &CuArray3dDescriptor, layered: bool) -> [u32; 3] {
    let depth = if layered { 1 } else { descriptor.depth.max(1) };
    [
        descriptor.width as u32,
        descriptor.height.max(1) as u32,
        depth as u32,
    ]
}

impl State {
    /// `cuArrayGetMemoryRequirements`: the array's bytes in whole tiles.
    ///
    /// # Errors
    /// `INVALID_VALUE` for an array with memory of its own.
    pub fn array_requirements(&self, handle: usize) -> Answer<u64> {
        let array = self.arrays.get(handle).ok_or(CuResult::INVALID_HANDLE)?;
        require(array.is_deferred() && array.owns)?;
        let held = self.memory.at(array.base);
        let bytes = held.ok_or(CuResult::INVALID_HANDLE)?.bytes;
        Ok(bytes.next_multiple_of(TILE_BYTES))
    }

    /// `cuArrayGetSparseProperties`, `cuMipmappedArrayGetSparseProperties`.
    ///
    /// # Errors
    /// `INVALID_VALUE` for an array that is not sparse, a level of another, or one of the other
    /// kind.
    pub fn sparse_division(&self, handle: usize, mipmapped: bool) -> Answer<Division> {
        let array = self.arrays.get(handle).ok_or(CuResult::INVALID_HANDLE)?;
        require(array.is_sparse() && array.owns)?;
        require(mipmapped || array.levels.is_empty())?;
        self.division(array)
    }

    fn division(&self, array: &Array) -> Answer<Division> {
        let layout = Layout::of(&array.descriptor).ok_or(CuResult::INVALID_VALUE)?;
        let flat = array.is_layered() || array.descriptor.depth == 0;
        let tile = tile(layout.element, flat).ok_or(CuResult::INVALID_VALUE)?;
        let mut division = Division {
            tile,
            tail_level: 0,
            tail_bytes: 0,
        };
        let layers = if array.is_layered() {
            array.descriptor.depth.max(1) as u64
        } else {
            1
        };
        for level in array.levels.iter().filter_map(|h| self.arrays.get(*h)) {
            let spans = extents(&level.descriptor, array.is_layered());
            let fills = spans.iter().zip(tile).all(|(extent, tile)| *extent >= tile);
            if fills && division.tail_bytes == 0 {
                division.tail_level += 1;
            } else {
                let bytes = Layout::of(&level.descriptor).and_then(|layout| layout.bytes());
                division.tail_bytes += bytes.ok_or(CuResult::INVALID_VALUE)? / layers;
            }
        }
        division.tail_bytes = division.tail_bytes.next_multiple_of(TILE_BYTES);
        Ok(division)
    }

    /// `cuMemMapArrayAsync`: all entries, or none of them if one cannot be.
    pub fn map_arrays(&mut self, operations: &[Operation]) -> Answer {
        let mut plans = Vec::with_capacity(operations.len());
        for operation in operations {
            plans.push(self.plan(operation)?);
        }
        for (operation, tiles) in operations.iter().zip(plans) {
            for tile in tiles {
                let Some(array) = self.arrays.get_mut(operation.array) else {
                    continue;
                };
                let before = match operation.memory {
                    Some((handle, _)) => array.tiles.insert(tile, handle),
                    None => array.tiles.remove(&tile),
                };
                if let Some((handle, _)) = operation.memory {
                    self.hold_physical(handle);
                }
                if let Some(before) = before {
                    self.unhold_physical(before);
                }
            }
        }
        Ok(())
    }

    /// Of these handles nothing is mapped any more: the last context of their device is gone.
    pub(super) fn unmap_tiles_of(&mut self, handles: &BTreeSet<u64>) {
        let mut unheld = Vec::new();
        for (_, array) in self.arrays.iter_mut() {
            let mapped = array.tiles.values().copied();
            unheld.extend(mapped.filter(|handle| handles.contains(handle)));
            array.tiles.retain(|_, handle| !handles.contains(handle));
        }
        for handle in unheld {
            self.unhold_physical(handle);
        }
    }

    /// The tiles that an entry means, if it can be done.
    fn plan(&self, operation: &Operation) -> Answer<Vec<Tile>> {
        let array = self.arrays.get(operation.array);
        let array = array.ok_or(CuResult::INVALID_HANDLE)?;
        require(array.owns && (array.is_sparse() || array.is_deferred()))?;
        require(operation.mipmapped || array.levels.is_empty())?;
        let (tiles, bytes) = if array.is_deferred() {
            (vec![Tile::Whole], self.array_requirements(operation.array)?)
        } else {
            let tiles = self.tiles_in(array, operation.region)?;
            let bytes = tiles.len() as u64 * TILE_BYTES;
            (tiles, bytes)
        };
        if let Some((handle, offset)) = operation.memory {
            let physical = self.vmm.get(handle)?;
            let end = offset.checked_add(bytes);
            require(physical.properties.alloc_flags.usage & TILE_POOL != 0)?;
            require(offset.is_multiple_of(TILE_BYTES))?;
            require(end.is_some_and(|end| end <= physical.bytes))?;
            let bit = 1u32.checked_shl(physical.device as u32);
            require(bit == Some(operation.devices))?;
        }
        Ok(tiles)
    }

    fn tiles_in(&self, array: &Array, region: Region) -> Answer<Vec<Tile>> {
        let division = self.division(array)?;
        let layers = if array.is_layered() {
            array.descriptor.depth as u32
        } else {
            1
        };
        match region {
            Region::Level {
                level,
                layer,
                offset,
                extent,
            } => {
                let descriptor = match array.levels.get(level as usize) {
                    Some(handle) => self.arrays.get(*handle).map(|level| level.descriptor),
                    None => (level == 0).then_some(array.descriptor),
                };
                let descriptor = descriptor.ok_or(CuResult::INVALID_VALUE)?;
                require(array.levels.is_empty() || level < division.tail_level)?;
                require(layer < layers)?;
                let whole = extents(&descriptor, array.is_layered());
                let mut spans = [(0, 0); 3];
                for axis in 0..3 {
                    let tile = division.tile[axis];
                    let end = offset[axis].checked_add(extent[axis]);
                    let end = end.ok_or(CuResult::INVALID_VALUE)?;
                    require(extent[axis] > 0 && end <= whole[axis])?;
                    require(offset[axis].is_multiple_of(tile))?;
                    require(end.is_multiple_of(tile) || end == whole[axis])?;
                    spans[axis] = (offset[axis] / tile, end.div_ceil(tile));
                }
                let mut tiles = Vec::new();
                for z in spans[2].0..spans[2].1 {
                    for y in spans[1].0..spans[1].1 {
                        let row = spans[0].0..spans[0].1;
                        tiles.extend(row.map(|x| Tile::At(level, layer, [x, y, z])));
                    }
                }
                Ok(tiles)
            }
            Region::Tail {
                layer,
                offset,
                bytes,
            } => {
                let end = offset.checked_add(bytes).ok_or(CuResult::INVALID_VALUE)?;
                require(layer < layers && bytes > 0 && end <= division.tail_bytes)?;
                require(offset.is_multiple_of(TILE_BYTES) && bytes.is_multiple_of(TILE_BYTES))?;
                let tiles = offset / TILE_BYTES..end / TILE_BYTES;
                Ok(tiles.map(|index| Tile::Tail(layer, index)).collect())
            }
        }
    }
}

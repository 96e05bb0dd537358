//! Arrays whose memory is mapped: sparse ones tile by tile, and those with deferred mapping as a whole.
//! What is mapped is held by the array, and goes with it.

use gpumem_cuda_abi::{CuArray3dDescriptor, CuArrayMapInfo, CuMemHandle};

use super::{Family, vmm};
use crate::pass::CuArraySparseProperties;
use crate::world::{Ended, Owner, World};

/// The family.
pub const FAMILY: Family = Family {
    name: "sparse",
    weight: 8,
    step,
    ended,
    end,
};

/// Bytes of a tile.
const TILE: usize = 64 << 10;
/// `CUDA_ARRAY3D_LAYERED`.
const LAYERED: u32 = 0x01;
/// `CUDA_ARRAY3D_SPARSE`.
const SPARSE: u32 = 0x40;
/// `CUDA_ARRAY3D_DEFERRED_MAPPING`.
const DEFERRED: u32 = 0x80;
/// `CU_MEM_CREATE_USAGE_TILE_POOL`.
const TILE_POOL: u16 = 1;
const MAP: u32 = 1;
const UNMAP: u32 = 2;

#[derive(Clone, Copy, Debug)]
struct Array {
    handle: usize,
    mipmapped: bool,
    descriptor: CuArray3dDescriptor,
    levels: u32,
    owner: Owner,
}

impl Array {
    fn is_layered(&self) -> bool {
        self.descriptor.flags & LAYERED != 0
    }

    fn layers(&self) -> usize {
        if self.is_layered() {
            self.descriptor.depth
        } else {
            1
        }
    }

    /// Elements of a level along each extent.
    fn extents(&self, level: u32) -> [usize; 3] {
        let half = |extent: usize| (extent.max(1) >> level).max(1);
        let depth = if self.is_layered() {
            1
        } else {
            half(self.descriptor.depth)
        };
        [
            half(self.descriptor.width),
            half(self.descriptor.height),
            depth,
        ]
    }
}

/// Physical memory for tiles.
#[derive(Clone, Copy, Debug)]
struct Memory {
    handle: u64,
    pages: usize,
    device: i32,
}

/// What lives of it.
#[derive(Debug, Default)]
pub struct Sparse {
    arrays: Vec<Array>,
    memory: Vec<Memory>,
    gone: Vec<u64>,
}

fn step(world: &mut World) {
    match world.rng.below(24) {
        0..4 => create(world),
        4..7 => create_memory(world),
        7..19 => map(world),
        19..21 => {
            if let Some(place) = world.rng.find(&world.sparse.arrays, |_| true) {
                let array = world.sparse.arrays.swap_remove(place);
                destroy(world, array);
            }
        }
        21..23 => {
            if let Some(place) = world.rng.find(&world.sparse.memory, |_| true) {
                let memory = world.sparse.memory.swap_remove(place);
                release(world, memory);
            }
        }
        _ => {
            let mut properties = CuArraySparseProperties::default();
            world
                .cuda
                .cuArrayGetSparseProperties(Some(&mut properties), 0x10);
            world.cuda.cuMemMapArrayAsync(None, 1, 0);
        }
    }
}

fn create(world: &mut World) {
    const FORMATS: [u32; 4] = [0x01, 0x10, 0x20, 0x20];
    if world.sparse.arrays.len() >= 5 {
        return;
    }
    let (mut handle, mipmapped) = (0, world.rng.percent(50));
    let flags = world
        .rng
        .pick(&[SPARSE, SPARSE, SPARSE | LAYERED, DEFERRED])
        .unwrap_or(SPARSE);
    let depth = match flags {
        _ if flags & LAYERED != 0 => world.rng.within(1, 5),
        _ if world.rng.percent(30) => world.rng.within(1, 70),
        _ => 0,
    };
    let descriptor = CuArray3dDescriptor {
        width: world.rng.within(64, 700),
        height: world.rng.within(64, 500),
        depth,
        format: world.rng.pick(&FORMATS).unwrap_or(0x20),
        num_channels: world.rng.pick(&[1, 1, 2, 4]).unwrap_or(1),
        flags,
    };
    let levels = if mipmapped {
        world.rng.within(2, 7) as u32
    } else {
        1
    };
    let place = Some(&mut handle);
    let code = if mipmapped {
        world
            .cuda
            .cuMipmappedArrayCreate(place, Some(&descriptor), levels)
    } else {
        world.cuda.cuArray3DCreate_v2(place, Some(&descriptor))
    };
    if code == 0 {
        let owner = world.owner();
        world.sparse.arrays.push(Array {
            handle,
            mipmapped,
            descriptor,
            levels,
            owner,
        });
    }
}

fn create_memory(world: &mut World) {
    if world.sparse.memory.len() >= 6 {
        return;
    }
    let (mut handle, pages) = (0, world.rng.within(1, 5));
    let device = world.rng.below(world.devices) as i32;
    let mut properties = vmm::properties(Some(device));
    // As often as not what is good for no tile is asked for once in a while.
    let usage = if world.rng.percent(5) { 0 } else { TILE_POOL };
    properties.alloc_flags.usage = usage;
    let bytes = pages * vmm::PAGE;
    let code = world
        .cuda
        .cuMemCreate(Some(&mut handle), bytes, Some(&properties), 0);
    if code == 0 {
        world.sparse.memory.push(Memory {
            handle,
            pages,
            device,
        });
    }
}

fn release(world: &mut World, memory: Memory) {
    let code = world.cuda.cuMemRelease(memory.handle);
    world.expect(code);
    world.sparse.gone.push(memory.handle);
}

/// A part of an array that can be mapped, and its bytes.
struct Part {
    kind: u32,
    words: [u64; 4],
    bytes: usize,
}

/// Any part of an array.
fn part(world: &mut World, array: &Array) -> Option<Part> {
    if array.descriptor.flags & DEFERRED != 0 {
        let mut requirements = [0; 4];
        let place = Some(&mut requirements);
        let code = if array.mipmapped {
            world
                .cuda
                .cuMipmappedArrayGetMemoryRequirements(place, array.handle, 0)
        } else {
            world
                .cuda
                .cuArrayGetMemoryRequirements(place, array.handle, 0)
        };
        let bytes = requirements[0] as usize;
        return (code == 0).then_some(Part {
            kind: 0,
            words: [0; 4],
            bytes,
        });
    }
    let mut properties = CuArraySparseProperties::default();
    let place = Some(&mut properties);
    let code = if array.mipmapped {
        world
            .cuda
            .cuMipmappedArrayGetSparseProperties(place, array.handle)
    } else {
        world.cuda.cuArrayGetSparseProperties(place, array.handle)
    };
    if !world.expect(code) {
        return None;
    }
    let layer = world.rng.below(array.layers()) as u64;
    let levels = if array.mipmapped {
        properties.tail_level.min(array.levels) as usize
    } else {
        1
    };
    let tail = properties.tail_bytes as usize / TILE;
    if levels == 0 || (tail > 0 && world.rng.percent(25)) {
        let first = world.rng.below(tail);
        let bytes = world.rng.within(1, tail - first + 1) * TILE;
        return Some(Part {
            kind: 1,
            words: [layer, (first * TILE) as u64, bytes as u64, 0],
            bytes,
        });
    }
    let level = world.rng.below(levels);
    let (mut offset, mut extent, mut tiles) = ([0; 3], [0; 3], 1);
    for (axis, whole) in array.extents(level as u32).into_iter().enumerate() {
        let tile = properties.tile[axis] as usize;
        let count = whole.div_ceil(tile);
        let first = world.rng.below(count);
        let last = world.rng.within(first + 1, (first + 4).min(count + 1));
        offset[axis] = (first * tile) as u64;
        extent[axis] = ((last * tile).min(whole) - first * tile) as u64;
        tiles *= last - first;
    }
    let pair = |low: u64, high: u64| low | high << 32;
    Some(Part {
        kind: 0,
        words: [
            pair(level as u64, layer),
            pair(offset[0], offset[1]),
            pair(offset[2], extent[0]),
            pair(extent[1], extent[2]),
        ],
        bytes: tiles * TILE,
    })
}

/// An entry of a list; what it maps is as often as not where something is mapped already.
fn entry(world: &mut World) -> Option<CuArrayMapInfo> {
    let array = world.rng.pick(&world.sparse.arrays)?;
    let part = part(world, &array)?;
    let mut info = CuArrayMapInfo {
        resource_type: u32::from(array.mipmapped),
        resource: array.handle as u64,
        subresource_type: part.kind,
        subresource: part.words,
        operation: UNMAP,
        memory_type: 0,
        memory: CuMemHandle(0),
        offset: 0,
        device_bit_mask: 0,
        flags: 0,
        reserved: [0; 2],
    };
    let room = |memory: &Memory| memory.pages * vmm::PAGE;
    let place = world
        .rng
        .find(&world.sparse.memory, |memory| room(memory) >= part.bytes);
    if let Some(memory) = place.and_then(|place| world.sparse.memory.get(place).copied())
        && world.rng.percent(70)
    {
        info.operation = MAP;
        info.memory = CuMemHandle(memory.handle);
        info.device_bit_mask = 1 << memory.device;
        let free = (room(&memory) - part.bytes) / TILE;
        info.offset = (world.rng.below(free + 1) * TILE) as u64;
    }
    match world.rng.below(60) {
        0 => info.operation = 9,
        1 => info.subresource[1] += 7, // in the middle of a tile
        2 => info.device_bit_mask = 1 << 20,
        3 => info.resource = 0x10,
        4 => {
            info.operation = MAP;
            info.memory = CuMemHandle(world.rng.pick(&world.sparse.gone).unwrap_or(0x10));
        }
        _ => {}
    }
    Some(info)
}

fn map(world: &mut World) {
    let wanted = world.rng.within(1, 5);
    let list: Vec<CuArrayMapInfo> = (0..wanted).filter_map(|_| entry(world)).collect();
    let count = list.len() as u32;
    let stream = world.rng.below(3);
    if world.rng.percent(50) {
        world.cuda.cuMemMapArrayAsync(Some(&list), count, stream);
    } else {
        world
            .cuda
            .cuMemMapArrayAsync_ptsz(Some(&list), count, stream);
    }
}

fn destroy_once(world: &mut World, array: &Array) -> u32 {
    if array.mipmapped {
        world.cuda.cuMipmappedArrayDestroy(array.handle)
    } else {
        world.cuda.cuArrayDestroy(array.handle)
    }
}

fn destroy(world: &mut World, array: Array) {
    let mut code = destroy_once(world, &array);
    if code != 0 {
        super::context::bind(world);
        code = destroy_once(world, &array);
        world.expect(code);
    }
    if code != 0 {
        world.sparse.arrays.push(array);
    }
}

fn ended(world: &mut World, ended: &Ended) {
    let sparse = &mut world.sparse;
    sparse.arrays.retain(|array| !ended.takes(array.owner));
    if ended.last {
        let lost = |memory: &Memory| memory.device == ended.device;
        sparse.memory.retain(|memory| !lost(memory));
    }
}

fn end(world: &mut World) {
    let all = !world.alone || world.rng.percent(40);
    for array in std::mem::take(&mut world.sparse.arrays) {
        if all {
            destroy(world, array);
        } else {
            world.sparse.arrays.push(array);
        }
    }
    for memory in std::mem::take(&mut world.sparse.memory) {
        release(world, memory);
    }
    world.sparse.gone.clear();
}

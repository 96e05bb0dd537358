//! Stream-ordered memory: pools, streams, events.

use gpumem_cuda_abi::{
    ALLOCATION_MANAGED, ALLOCATION_PINNED, CuMemLocation, CuMemLocationType, CuMemPoolProps,
};

use crate::model::{Ended, ON_HOST, Owner};
use crate::pass::{Addr, Made, Private};
use crate::world::{Family, World};

/// The family.
pub const FAMILY: Family = Family {
    name: "pool",
    weight: 22,
    step,
    ended,
    end,
};

fn step(world: &mut World) {
    match world.rng.below(40) {
        0..10 => alloc(world),
        10..21 => free_one(world),
        21..23 => create(world),
        23 => create_elsewhere(world),
        24 if world.rng.percent(30) => {
            if let Some(place) = world.rng.find(&world.pools.elsewhere, |_| true) {
                let (pool, ..) = world.pools.elsewhere.swap_remove(place);
                let code = world.cuda.cuMemPoolDestroy(pool);
                world.expect(code);
                world.pools.gone.push(pool);
            }
        }
        24 => {
            if let Some(place) = world.rng.find(&world.pools.pools, |_| true) {
                let (pool, _) = world.pools.pools.swap_remove(place);
                let code = world.cuda.cuMemPoolDestroy(pool);
                world.expect(code);
                world.pools.gone.push(pool);
            }
        }
        25 => wrong(world),
        26..28 => {
            let pool = any_pool(world);
            let keep = world.rng.pick(&[0, 1, 32 << 20, 1 << 30]).unwrap_or(0);
            world.cuda.cuMemPoolTrimTo(pool, keep);
        }
        28..31 => attributes(world),
        31..33 => set_current(world),
        33..35 => streams(world),
        35..39 => synchronise(world),
        _ => share(world),
    }
}

/// A stream; 0, 1 and 2 are the default streams.
fn any_stream(world: &mut World) -> usize {
    let own = world.rng.pick(&world.pools.streams).map_or(0, |s| s.0);
    let default = world.rng.below(3);
    world
        .rng
        .pick(&[own, own, default, default, default, default, 0x10])
        .unwrap_or(0)
}

/// A pool: one that the program created, or a device's default pool.
fn any_pool(world: &mut World) -> usize {
    if world.rng.percent(60)
        && let Some((pool, _)) = world.rng.pick(&world.pools.pools)
    {
        return pool;
    }
    let (mut pool, device) = (0, world.rng.below(world.devices) as i32);
    world
        .cuda
        .cuDeviceGetDefaultMemPool(Some(&mut pool), device);
    pool
}

/// A pool of host memory or of managed memory, and whether it is on the host: one that the program created, or a
/// location's default pool.
fn any_elsewhere(world: &mut World) -> (usize, bool) {
    if world.rng.percent(70)
        && let Some((pool, kind, location)) = world.rng.pick(&world.pools.elsewhere)
    {
        return (pool, is_host(kind, location));
    }
    let (kind, location) = elsewhere(world);
    let mut pool = 0;
    world
        .cuda
        .cuMemGetDefaultMemPool(Some(&mut pool), Some(&location), kind);
    (pool, is_host(kind, location))
}

fn is_host(kind: u32, location: CuMemLocation) -> bool {
    kind == ALLOCATION_PINNED && location.kind.is_host()
}

/// A type and location of memory that is not a device's own; in some cases one that does not exist.
fn elsewhere(world: &mut World) -> (u32, CuMemLocation) {
    use CuMemLocationType as Type;
    let kinds = [
        (ALLOCATION_PINNED, Type::HOST),
        (ALLOCATION_PINNED, Type::HOST_NUMA),
        (ALLOCATION_PINNED, Type::HOST_NUMA),
        (ALLOCATION_MANAGED, Type::DEVICE),
        (ALLOCATION_MANAGED, Type::DEVICE),
        (ALLOCATION_MANAGED, Type::HOST),
        (ALLOCATION_MANAGED, Type::HOST_NUMA),
        (ALLOCATION_MANAGED, Type::NONE),
        (ALLOCATION_PINNED, Type::HOST_NUMA_CURRENT),
    ];
    let (allocation, kind) = world.rng.pick(&kinds).unwrap_or(kinds[0]);
    let id = match kind {
        Type::DEVICE => world.device(),
        // The host has two nodes.
        _ if world.rng.percent(4) => 2,
        _ => world.rng.below(2) as i32,
    };
    (allocation, CuMemLocation { kind, id })
}

fn alloc(world: &mut World) {
    let (mut pointer, bytes, stream) = (Made(0), world.bytes(), any_stream(world));
    let mut on_host = false;
    let place = Some(&mut pointer);
    let code = match world.rng.below(4) {
        0 => world.cuda.cuMemAllocAsync(place, bytes, stream),
        1 => world.cuda.cuMemAllocAsync_ptsz(place, bytes, stream),
        way => {
            let pool;
            (pool, on_host) = match world.rng.percent(25) {
                true => any_elsewhere(world),
                false => (any_pool(world), false),
            };
            if way == 2 {
                world
                    .cuda
                    .cuMemAllocFromPoolAsync(place, bytes, pool, stream)
            } else {
                world
                    .cuda
                    .cuMemAllocFromPoolAsync_ptsz(place, bytes, pool, stream)
            }
        }
    };
    if code == 0 && pointer.0 != 0 {
        world.cuda.sized(pointer.0, bytes);
        let (mut device, pointer) = (ON_HOST, Addr(pointer.0));
        if on_host {
            world.pools.blocks.push((pointer, device));
            return;
        }
        let code = world
            .cuda
            .cuPointerGetAttribute(Some(&mut device), 9, pointer);
        if code != 0 {
            // The context of the stream decides the memory's owner; the query needs a current
            // context.
            super::context::bind(world);
            let code = world
                .cuda
                .cuPointerGetAttribute(Some(&mut device), 9, pointer);
            world.expect(code);
        }
        world.pools.blocks.push((pointer, device));
    }
}

fn free_one(world: &mut World) {
    if let Some(place) = world.rng.find(&world.pools.blocks, |_| true) {
        let block = world.pools.blocks.swap_remove(place);
        free(world, block);
        if world.alone && world.rng.percent(5) {
            world.cuda.cuMemFreeAsync(block.0, 0);
        }
    }
}

fn free(world: &mut World, block: (Addr, i32)) {
    let stream = any_stream(world);
    let mut code = match world.rng.below(3) {
        0 => world.cuda.cuMemFreeAsync(block.0, stream),
        1 => world.cuda.cuMemFreeAsync_ptsz(block.0, stream),
        _ => world.cuda.cuMemFree_v2(block.0),
    };
    if code != 0 {
        super::context::bind(world);
        code = world.cuda.cuMemFreeAsync(block.0, 0);
        if code != 0 && code != crate::cuda::OUT_OF_MEMORY {
            code = world.cuda.cuMemFree_v2(block.0);
        }
        world.expect(code);
    }
    if code != 0 {
        world.pools.blocks.push(block);
    }
}

/// Properties of a pool on a device.
pub fn properties(device: i32, max_size: usize) -> CuMemPoolProps {
    CuMemPoolProps {
        alloc_type: ALLOCATION_PINNED,
        handle_types: 1,
        location: CuMemLocation {
            kind: CuMemLocationType::DEVICE,
            id: device,
        },
        win32_security_attributes: std::ptr::null_mut(),
        max_size,
        usage: 0,
        reserved: [0; 54],
    }
}

fn create(world: &mut World) {
    if world.pools.pools.len() >= 5 {
        return;
    }
    let device = world.device();
    let most = world.rng.pick(&[0, 0, 64 << 20, 1 << 20]).unwrap_or(0);
    let mut properties = properties(device, most);
    if world.rng.percent(5) {
        properties.alloc_type = 9;
    }
    let mut pool = 0;
    let code = world
        .cuda
        .cuMemPoolCreate(Some(&mut pool), Some(&properties));
    if code == 0 {
        world.pools.pools.push((pool, device));
    }
}

fn create_elsewhere(world: &mut World) {
    if world.pools.elsewhere.len() >= 5 {
        return;
    }
    let (kind, location) = elsewhere(world);
    // Some cannot be shared, or have no largest size.
    let (shared, most) = match world.rng.percent(10) {
        true => (1, 64 << 20),
        false => (0, 0),
    };
    let mut properties = properties(0, most);
    properties.alloc_type = kind;
    properties.location = location;
    properties.handle_types = shared;
    let mut pool = 0;
    let code = world
        .cuda
        .cuMemPoolCreate(Some(&mut pool), Some(&properties));
    if code == 0 {
        world.pools.elsewhere.push((pool, kind, location));
    }
}

fn wrong(world: &mut World) {
    let gone = world.rng.pick(&world.pools.gone).unwrap_or(0x10);
    let inside = world.rng.pick(&world.pools.blocks).map_or(0, |b| b.0.0 + 1);
    match world.rng.below(5) {
        0 => world.cuda.cuMemPoolDestroy(gone),
        1 => {
            let mut pool = 0;
            world.cuda.cuDeviceGetDefaultMemPool(Some(&mut pool), 0);
            world.cuda.cuMemPoolDestroy(pool)
        }
        2 => {
            let mut pointer = Made(0);
            world
                .cuda
                .cuMemAllocFromPoolAsync(Some(&mut pointer), 4096, gone, 0)
        }
        3 => world.cuda.cuMemFreeAsync(Addr(inside), 0),
        _ => world.cuda.cuMemPoolTrimTo(gone, 0),
    };
}

fn attributes(world: &mut World) {
    let pool = match world.rng.percent(20) {
        true => any_elsewhere(world).0,
        false => any_pool(world),
    };
    if world.rng.percent(50) {
        // The release threshold, or a peak, which can only be set to 0.
        let attribute = world.rng.pick(&[4, 4, 4, 6, 8, 99]).unwrap_or(4);
        let value = match attribute {
            4 => world.rng.pick(&[0, 1 << 20, 64 << 20, u64::MAX]),
            _ => world.rng.pick(&[0, 0, 7]),
        };
        let value = value.unwrap_or(0);
        world
            .cuda
            .cuMemPoolSetAttribute(pool, attribute, Some(&value));
    } else {
        for attribute in [4, 5, 6, 7, 8] {
            let mut value = 0;
            world
                .cuda
                .cuMemPoolGetAttribute(pool, attribute, Some(&mut value));
        }
    }
}

fn set_current_elsewhere(world: &mut World) {
    let Some((pool, kind, location)) = world.rng.pick(&world.pools.elsewhere) else {
        return;
    };
    let code = world.cuda.cuMemSetMemPool(Some(&location), kind, pool);
    world.expect(code);
    let mut current = 0;
    world
        .cuda
        .cuMemGetMemPool(Some(&mut current), Some(&location), kind);
}

fn set_current(world: &mut World) {
    if world.rng.percent(20) {
        return set_current_elsewhere(world);
    }
    let Some((pool, device)) = world.rng.pick(&world.pools.pools) else {
        return;
    };
    let device = if world.rng.percent(10) {
        world.device()
    } else {
        device
    };
    let location = CuMemLocation {
        kind: CuMemLocationType::DEVICE,
        id: device,
    };
    if world.rng.percent(50) {
        world.cuda.cuDeviceSetMemPool(device, pool);
    } else {
        world.cuda.cuMemSetMemPool(Some(&location), 1, pool);
    }
    if world.alone {
        let (mut first, mut second, mut third) = (0, 0, 0);
        world.cuda.cuDeviceGetMemPool(Some(&mut first), device);
        world
            .cuda
            .cuMemGetMemPool(Some(&mut second), Some(&location), 1);
        world
            .cuda
            .cuMemGetDefaultMemPool(Some(&mut third), Some(&location), 1);
    }
}

fn streams(world: &mut World) {
    if world.pools.streams.len() < 4 && world.rng.percent(60) {
        let mut stream = 0;
        if world.cuda.cuStreamCreate(Some(&mut stream), 0) == 0 {
            let owner = world.owner();
            world.pools.streams.push((stream, owner));
        }
    } else if let Some(place) = world.rng.find(&world.pools.streams, |_| true) {
        let (stream, _) = world.pools.streams.swap_remove(place);
        let code = world.cuda.cuStreamDestroy_v2(stream);
        world.expect(code);
    }
}

/// Adds a new stream of a context to the model.
pub fn stream_made(world: &mut World, stream: usize, context: usize, device: i32) {
    let owner = Owner { context, device };
    world.pools.streams.push((stream, owner));
}

fn synchronise(world: &mut World) {
    let stream = any_stream(world);
    match world.rng.below(5) {
        0 => drop(world.cuda.cuStreamSynchronize(stream)),
        1 => drop(world.cuda.cuStreamSynchronize_ptsz(stream)),
        2 => drop(world.cuda.cuCtxSynchronize()),
        3 => drop(world.cuda.cuCtxSynchronize_v2(0)),
        _ => {
            let mut event = 0;
            if world.cuda.cuEventCreate(Some(&mut event), 0) == 0 {
                let owner = world.owner();
                world.pools.events.push((event, owner));
            }
            if let Some((event, _)) = world.rng.pick(&world.pools.events) {
                world.cuda.cuEventRecord(event, stream);
                world.cuda.cuEventSynchronize(event);
            }
            if world.pools.events.len() > 3 {
                let (event, _) = world.pools.events.swap_remove(0);
                let code = world.cuda.cuEventDestroy_v2(event);
                world.expect(code);
            }
        }
    }
}

fn share(world: &mut World) {
    let (pool, mut shared) = (any_pool(world), Private(usize::MAX));
    let code = world
        .cuda
        .cuMemPoolExportToShareableHandle(Some(&mut shared), pool, 1, 0);
    if code == 0 {
        // A file descriptor, in the lower half of the variable.
        let (file, mut taken) = (shared.0 as u32 as i32, 0);
        let shared = Private(file as usize);
        let code = world
            .cuda
            .cuMemPoolImportFromShareableHandle(Some(&mut taken), shared, 1, 0);
        close(file);
        if code == 0 {
            let code = world.cuda.cuMemPoolDestroy(taken);
            world.expect(code);
        }
    }
}

/// Closes a descriptor that the driver returned.
pub fn close(descriptor: i32) {
    // SAFETY: the driver created this descriptor for this process, which alone uses it.
    unsafe { libc::close(descriptor) };
}

fn ended(world: &mut World, ended: &Ended) {
    let pools = &mut world.pools;
    pools.streams.retain(|(_, owner)| !ended.takes(*owner));
    pools.events.retain(|(_, owner)| !ended.takes(*owner));
    pools.blocks.retain(|(_, device)| {
        !ended.takes(Owner {
            context: 0,
            device: *device,
        })
    });
}

fn end(world: &mut World) {
    let all = !world.alone || world.rng.percent(40);
    for block in std::mem::take(&mut world.pools.blocks) {
        // The end of a device's last context frees the memory of its pools. Without a context,
        // the program must free it.
        if all || block.1 == ON_HOST || !super::context::any_on(world, block.1) {
            free(world, block);
        } else {
            world.pools.blocks.push(block);
        }
    }
    for (pool, ..) in std::mem::take(&mut world.pools.elsewhere) {
        let code = world.cuda.cuMemPoolDestroy(pool);
        world.expect(code);
    }
    for (pool, _) in std::mem::take(&mut world.pools.pools) {
        let code = world.cuda.cuMemPoolDestroy(pool);
        world.expect(code);
    }
    world.pools.gone.clear();
    for (stream, _) in std::mem::take(&mut world.pools.streams) {
        let code = world.cuda.cuStreamDestroy_v2(stream);
        world.expect(code);
    }
    for (event, _) in std::mem::take(&mut world.pools.events) {
        let code = world.cuda.cuEventDestroy_v2(event);
        world.expect(code);
    }
    for device in 0..world.devices as i32 {
        if world.alone {
            let mut pool = 0;
            world
                .cuda
                .cuDeviceGetDefaultMemPool(Some(&mut pool), device);
            world.cuda.cuMemPoolSetAttribute(pool, 4, Some(&0));
            world.cuda.cuMemPoolTrimTo(pool, 0);
        }
    }
}

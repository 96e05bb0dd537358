//! Virtual memory management: handles, address ranges, and mappings between them.

use gpumem_cuda_abi::{
    ALLOCATION_MANAGED, CuMemAccessDesc, CuMemAllocFlags, CuMemAllocationProp, CuMemLocation,
    CuMemLocationType,
};

use crate::model::{Ended, Handle, Mapping};
use crate::pass::{Addr, Made, Private};
use crate::world::{Family, World};

/// The family.
pub const FAMILY: Family = Family {
    name: "vmm",
    weight: 22,
    step,
    ended,
    end,
};

/// Sizes of handles and mappings are multiples of this.
pub const PAGE: usize = 2 << 20;

/// Properties of a handle on a device or on the host (NUMA node 1); it can be exported.
pub fn properties(device: Option<i32>) -> CuMemAllocationProp {
    let location = match device {
        Some(id) => CuMemLocation {
            kind: CuMemLocationType::DEVICE,
            id,
        },
        None => CuMemLocation {
            kind: CuMemLocationType::HOST_NUMA,
            id: 1,
        },
    };
    CuMemAllocationProp {
        kind: 1,
        requested_handle_types: 1,
        location,
        win32_handle_meta_data: std::ptr::null_mut(),
        alloc_flags: CuMemAllocFlags {
            compression_type: 0,
            gpu_direct_rdma_capable: 0,
            usage: 0,
            reserved: [0; 4],
        },
    }
}

fn step(world: &mut World) {
    match world.rng.below(32) {
        0..6 => create(world),
        6..11 => release_one(world),
        11..14 => reserve(world),
        14 => free_range(world),
        15..22 => map(world),
        22..26 => unmap(world),
        26..28 => retain(world),
        28..30 => share(world),
        30 => wrong(world),
        _ => {
            let mut bytes = 0;
            let properties = properties(Some(0));
            world
                .cuda
                .cuMemGetAllocationGranularity(Some(&mut bytes), Some(&properties), 0);
        }
    }
}

fn create(world: &mut World) {
    if world.vmm.handles.len() >= 12 {
        return;
    }
    let device = (!world.rng.percent(12)).then(|| world.device());
    let pages = world.rng.within(1, 9);
    let bytes = match world.rng.below(25) {
        0 => 0,
        1 => 4096,
        2 if device.is_some() => 1 << 40,
        _ => pages * PAGE,
    };
    let (mut handle, mut properties) = (0, properties(device));
    if device.is_none() {
        use CuMemLocationType as Type;
        let kinds = [
            Type::HOST,
            Type::HOST,
            Type::HOST_NUMA,
            Type::HOST_NUMA_CURRENT,
        ];
        properties.location.kind = world.rng.pick(&kinds).unwrap_or(Type::HOST);
        if properties.location.kind == Type::HOST && world.rng.percent(80) {
            // Otherwise the call fails: such memory cannot be shared.
            properties.requested_handle_types = 0;
        }
    }
    let code = world
        .cuda
        .cuMemCreate(Some(&mut handle), bytes, Some(&properties), 0);
    if code == 0 {
        world.vmm.handles.push(Handle {
            handle,
            pages,
            references: 1,
            device,
        });
    }
}

fn release_one(world: &mut World) {
    let Some(place) = world.rng.find(&world.vmm.handles, |_| true) else {
        return;
    };
    let Some(handle) = world.vmm.handles.get_mut(place) else {
        return;
    };
    let number = handle.handle;
    handle.references -= 1;
    if handle.references == 0 {
        world.vmm.handles.swap_remove(place);
        world.vmm.gone.push(number);
    }
    let code = world.cuda.cuMemRelease(number);
    world.expect(code);
}

fn reserve(world: &mut World) {
    if world.vmm.ranges.len() >= 4 {
        return;
    }
    let pages = world.rng.within(4, 25);
    let bytes = world
        .rng
        .pick(&[pages * PAGE, pages * PAGE, pages * PAGE, 0, 4096])
        .unwrap_or(0);
    let mut base = Made(0);
    let code = world
        .cuda
        .cuMemAddressReserve(Some(&mut base), bytes, 0, Addr(0), 0);
    if code == 0 {
        world.cuda.sized(base.0, bytes);
        world.vmm.ranges.push((base.0, pages));
    }
}

fn taken(mappings: &[Mapping], at: u64, pages: usize) -> bool {
    let end = at + (pages * PAGE) as u64;
    mappings
        .iter()
        .any(|m| m.at < end && at < m.at + (m.pages * PAGE) as u64)
}

fn free_range(world: &mut World) {
    let Some((base, pages)) = world.rng.pick(&world.vmm.ranges) else {
        return;
    };
    let used = taken(&world.vmm.mappings, base, pages);
    let code = world.cuda.cuMemAddressFree(Addr(base), pages * PAGE);
    if !used {
        world.expect(code);
    }
    if code == 0 {
        world.vmm.ranges.retain(|range| range.0 != base);
    }
}

fn map(world: &mut World) {
    let (Some((base, room)), Some(handle)) = (
        world.rng.pick(&world.vmm.ranges),
        world.rng.pick(&world.vmm.handles),
    ) else {
        return;
    };
    let pages = world.rng.within(1, handle.pages + 1);
    let offset = world.rng.below(handle.pages - pages + 1);
    // Next to the last mapping, which makes ranges of several mappings.
    let next = world
        .vmm
        .mappings
        .iter()
        .filter(|m| (base..base + (room * PAGE) as u64).contains(&m.at))
        .map(|m| (m.at - base) as usize / PAGE + m.pages)
        .max();
    let at = match next {
        Some(next) if next < room && world.rng.percent(75) => next,
        _ => world.rng.below(room),
    };
    let at = base + (at * PAGE) as u64;
    let bytes = pages * PAGE;
    let code = world
        .cuda
        .cuMemMap(Addr(at), bytes, offset * PAGE, handle.handle, 0);
    if code == 0 {
        world.vmm.mappings.push(Mapping {
            at,
            pages,
            device: handle.device,
        });
        if world.rng.percent(50) {
            let access = CuMemAccessDesc {
                location: CuMemLocation {
                    kind: CuMemLocationType::DEVICE,
                    id: 0,
                },
                flags: 3,
            };
            let code = world.cuda.cuMemSetAccess(Addr(at), bytes, Some(&access), 1);
            world.expect(code);
        }
    }
}

fn unmap(world: &mut World) {
    let Some(first) = world.rng.pick(&world.vmm.mappings) else {
        return;
    };
    // This mapping and, at random, those that follow without a gap, in one call.
    let mut end = first.at + (first.pages * PAGE) as u64;
    while world.rng.percent(60) {
        let Some(next) = world.vmm.mappings.iter().find(|m| m.at == end) else {
            break;
        };
        end += (next.pages * PAGE) as u64;
    }
    let beyond = world.rng.percent(8);
    if beyond {
        // Beyond the end of a mapping. The driver decides whether that range is reserved.
        end += world.rng.pick(&[PAGE as u64, 512]).unwrap_or_default();
        if world.vmm.mappings.iter().any(|m| m.at == end - PAGE as u64) {
            return;
        }
    }
    let code = world
        .cuda
        .cuMemUnmap(Addr(first.at), (end - first.at) as usize);
    if code == 0 || (!beyond && world.expect(code)) {
        world
            .vmm
            .mappings
            .retain(|m| m.at < first.at || m.at >= end);
    }
}

fn retain(world: &mut World) {
    let Some(mapping) = world.rng.pick(&world.vmm.mappings) else {
        return;
    };
    let mut handle = 0;
    let inside = mapping.at + world.rng.below(mapping.pages * PAGE) as u64;
    let code = world
        .cuda
        .cuMemRetainAllocationHandle(Some(&mut handle), Addr(inside));
    if world.expect(code) {
        held(world, handle, mapping.pages, mapping.device);
    }
}

/// Adds a reference to a handle that the program received.
fn held(world: &mut World, handle: u64, pages: usize, device: Option<i32>) {
    world.vmm.gone.retain(|gone| *gone != handle);
    match world.vmm.handles.iter_mut().find(|h| h.handle == handle) {
        Some(known) => known.references += 1,
        // Only mappings held it, so its size is no longer known; it is at least this large.
        None => world.vmm.handles.push(Handle {
            handle,
            pages,
            references: 1,
            device,
        }),
    }
}

/// Exports a handle and imports it again, which adds a reference to the same memory.
fn share(world: &mut World) {
    let Some(handle) = world.rng.pick(&world.vmm.handles) else {
        return;
    };
    let (mut file, mut again) = (Private(-1), 0);
    let code = world
        .cuda
        .cuMemExportToShareableHandle(Some(&mut file), handle.handle, 1, 0);
    if (code != 0 && handle.device.is_none()) || !world.expect(code) {
        return;
    }
    let code =
        world
            .cuda
            .cuMemImportFromShareableHandle(Some(&mut again), Private(file.0 as usize), 1);
    super::pool::close(file.0);
    if world.expect(code) {
        held(world, again, handle.pages, handle.device);
    }
}

fn wrong(world: &mut World) {
    let gone = world.rng.pick(&world.vmm.gone).unwrap_or(0x10);
    match world.rng.below(6) {
        5 => {
            let (mut handle, mut managed) = (0, properties(Some(0)));
            managed.kind = ALLOCATION_MANAGED;
            world
                .cuda
                .cuMemCreate(Some(&mut handle), PAGE, Some(&managed), 0)
        }
        0 => world.cuda.cuMemRelease(gone),
        1 => world.cuda.cuMemUnmap(Addr(PAGE as u64), PAGE),
        2 => {
            let range = world.rng.pick(&world.vmm.ranges).map_or(0, |r| r.0);
            world.cuda.cuMemMap(Addr(range), PAGE, 0, gone, 0)
        }
        3 => {
            let mut handle = 0;
            world
                .cuda
                .cuMemRetainAllocationHandle(Some(&mut handle), Addr(0x1000))
        }
        _ => {
            let mut handle = 0;
            world.cuda.cuMemCreate(Some(&mut handle), PAGE, None, 0)
        }
    };
}

/// Leaves handles and mappings to the last contexts of their devices, which release them.
fn end_contexts_first(world: &mut World) {
    (super::context::FAMILY.end)(world);
}

fn ended(world: &mut World, ended: &Ended) {
    if ended.last {
        let lost = |device: Option<i32>| device == Some(ended.device);
        world.vmm.handles.retain(|handle| !lost(handle.device));
        world.vmm.mappings.retain(|mapping| !lost(mapping.device));
    }
}

fn end(world: &mut World) {
    if world.alone && world.rng.percent(30) {
        end_contexts_first(world);
    }
    for mapping in std::mem::take(&mut world.vmm.mappings) {
        let code = world
            .cuda
            .cuMemUnmap(Addr(mapping.at), mapping.pages * PAGE);
        world.expect(code);
    }
    for handle in std::mem::take(&mut world.vmm.handles) {
        for _ in 0..handle.references {
            let code = world.cuda.cuMemRelease(handle.handle);
            world.expect(code);
        }
    }
    for (base, pages) in std::mem::take(&mut world.vmm.ranges) {
        let code = world.cuda.cuMemAddressFree(Addr(base), pages * PAGE);
        world.expect(code);
    }
    world.vmm.gone.clear();
}

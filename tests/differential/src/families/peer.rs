//! Memory shared with another process: the program opens the peer's memory, and the peer opens the
//! program's. Opened memory is an alias, and is counted where it was allocated.

use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};

use gpumem_cuda_abi::{
    CuArray3dDescriptor, CuExternalMemoryBufferDesc, CuExternalMemoryHandleDesc,
    CuExternalMemoryMipmappedArrayDesc, CuIpcMemHandle, CuMemAccessDesc, CuMemLocation,
    CuMemLocationType,
};

use super::vmm::PAGE;
use super::{context, device, pool, vmm};
use crate::model::{Block, Ended, Open, Owner, Theirs, What};
use crate::pass::{Addr, Made, Private};
use crate::peer::ask;
use crate::peer::message::{Answer, Request, Wanted};
use crate::world::{Family, World};

/// The family.
pub const FAMILY: Family = Family {
    name: "peer",
    weight: 8,
    step,
    ended,
    end,
};

/// The most items of the peer, and the most that are open.
const MOST: usize = 6;

fn step(world: &mut World) {
    match world.rng.below(30) {
        0..5 => make(world),
        5..12 => take(world),
        12..17 => {
            if let Some(place) = world.rng.find(&world.peer.open, |_| true) {
                let open = world.peer.open.swap_remove(place);
                close(world, open);
            }
        }
        17..20 => lend_memory(world),
        20..22 => lend_handle(world),
        22 => lend_pool(world),
        23..26 => {
            if let Some(place) = world.rng.find(&world.peer.lent, |_| true) {
                let item = world.peer.lent.swap_remove(place);
                release(world, item);
            }
        }
        26..28 => {
            if let Some(place) = world.rng.find(&world.peer.theirs, |_| true) {
                let theirs = world.peer.theirs.swap_remove(place);
                release(world, theirs.item);
            }
        }
        28 => {
            if let Some(place) = world.rng.find(&world.peer.handles, |_| true) {
                let (handle, _) = world.peer.handles.swap_remove(place);
                let code = world.cuda.cuMemRelease(handle);
                world.expect(code);
            }
        }
        _ => wrong(world),
    }
}

/// Sends a request to the peer; `None` if it failed.
fn asked(
    world: &mut World,
    request: Request,
    file: Option<&OwnedFd>,
) -> Option<(Answer, Option<OwnedFd>)> {
    match ask(request, file) {
        Some(answer) => Some(answer).filter(|(answer, _)| answer.code == 0),
        None => {
            world.cuda.fail("the peer is gone");
            None
        }
    }
}

/// Makes the peer release an item, which must succeed.
fn release(world: &mut World, item: u64) {
    if asked(world, Request::about(Wanted::Release, item), None).is_none() {
        world.cuda.fail("the peer cannot give up what it has");
    }
}

/// Makes the peer allocate something.
fn make(world: &mut World) {
    if world.peer.theirs.len() >= MOST {
        return;
    }
    let device = world.rng.below(world.devices) as i32;
    let pages = PAGE * world.rng.within(1, 5);
    let small = world.rng.within(1, 3 << 20);
    let (request, what, bytes) = match world.rng.below(3) {
        0 => {
            let request = Request::on(Wanted::Allocate, device, small);
            (request, What::Memory, small)
        }
        1 => {
            let request = Request::on(Wanted::Create, device, pages);
            (request, What::Handle, pages)
        }
        _ => {
            let request = Request::on(Wanted::MakePool, device, 0);
            let Some((made, _)) = asked(world, request, None) else {
                return;
            };
            world.peer.pools.push(made.item);
            let request = Request::on(Wanted::AllocateFromPool, device, small);
            let request = request.of(made.item);
            (request, What::PoolMemory(made.item), small)
        }
    };
    if let Some((made, _)) = asked(world, request, None) {
        world.peer.theirs.push(Theirs {
            item: made.item,
            what,
            device,
            bytes,
        });
    }
}

/// Opens an item of the peer. In some cases the peer releases it first.
fn take(world: &mut World) {
    let Some(place) = world.rng.find(&world.peer.theirs, |_| true) else {
        return;
    };
    let Some(theirs) = world.peer.theirs.get(place).copied() else {
        return;
    };
    if world.peer.open.len() >= MOST {
        return;
    }
    let wanted = match theirs.what {
        What::Memory => Wanted::ShareMemory,
        What::Handle => Wanted::ShareHandle,
        What::PoolMemory(_) => Wanted::SharePointer,
    };
    let Some((shared, file)) = asked(world, Request::about(wanted, theirs.item), None) else {
        return;
    };
    let mut pool_file = None;
    if let What::PoolMemory(pool) = theirs.what {
        let request = Request::about(Wanted::SharePool, pool);
        pool_file = asked(world, request, None).and_then(|(_, file)| file);
    }
    if world.rng.percent(15) {
        world.peer.theirs.swap_remove(place);
        release(world, theirs.item);
    }
    match (theirs.what, file, pool_file) {
        (What::Memory, ..) => take_memory(world, shared.data),
        (What::Handle, Some(file), _) if world.rng.percent(60) => {
            take_handle(world, theirs, &file);
        }
        (What::Handle, Some(file), _) => take_external(world, theirs, file),
        (What::PoolMemory(_), _, Some(file)) => take_pool(world, theirs, &file, shared.data),
        _ => {}
    }
}

fn take_memory(world: &mut World, reserved: [u8; 64]) {
    let handle = CuIpcMemHandle { reserved };
    // Opening it again returns the same address, which must be closed as often.
    for _ in 0..world.rng.within(1, 3) {
        let mut opened = Private(0);
        let place = Some(&mut opened);
        let code = if world.rng.percent(50) {
            world.cuda.cuIpcOpenMemHandle_v2(place, handle, 1)
        } else {
            world.cuda.cuIpcOpenMemHandle(place, handle, 1)
        };
        if code == 0 {
            let owner = world.owner();
            world.peer.open.push(Open::Memory(opened, owner));
        }
    }
}

fn access(device: i32) -> CuMemAccessDesc {
    CuMemAccessDesc {
        location: CuMemLocation {
            kind: CuMemLocationType::DEVICE,
            id: device,
        },
        flags: 3,
    }
}

fn take_handle(world: &mut World, theirs: Theirs, file: &OwnedFd) {
    let Theirs { device, bytes, .. } = theirs;
    let (mut handle, mut at) = (0, Made(0));
    let shared = Private(file.as_raw_fd() as usize);
    let code = world
        .cuda
        .cuMemImportFromShareableHandle(Some(&mut handle), shared, 1);
    if !world.expect(code) {
        return;
    }
    let code = world
        .cuda
        .cuMemAddressReserve(Some(&mut at), bytes, 0, Addr(0), 0);
    if world.expect(code) {
        world.cuda.sized(at.0, bytes);
    }
    let at = Addr(at.0);
    let code = world.cuda.cuMemMap(at, bytes, 0, handle, 0);
    world.expect(code);
    let code = world
        .cuda
        .cuMemSetAccess(at, bytes, Some(&access(device)), 1);
    world.expect(code);
    if world.rng.percent(30) {
        // A second reference, found by the address; one of the two is released.
        let mut again = 0;
        let code = world.cuda.cuMemRetainAllocationHandle(Some(&mut again), at);
        if world.expect(code) {
            let code = world.cuda.cuMemRelease(again);
            world.expect(code);
        }
    }
    world.peer.open.push(Open::Handle {
        handle,
        device,
        at,
        bytes,
    });
}

fn take_external(world: &mut World, theirs: Theirs, file: OwnedFd) {
    const OPAQUE_FILE: u32 = 1;
    let mut memory = 0;
    let wanted = CuExternalMemoryHandleDesc {
        kind: OPAQUE_FILE,
        handle: [file.as_raw_fd() as u64, 0],
        size: theirs.bytes as u64,
        flags: 0,
        reserved: [0; 16],
    };
    let code = world
        .cuda
        .cuImportExternalMemory(Some(&mut memory), Some(&wanted));
    if code != 0 {
        return;
    }
    // From here on the driver owns the descriptor.
    let _ = file.into_raw_fd();
    if world.rng.percent(50) {
        let wanted = CuExternalMemoryBufferDesc {
            offset: 0,
            size: world.rng.within(1, theirs.bytes + 1) as u64,
            flags: 0,
            reserved: [0; 16],
        };
        let mut pointer = Made(0);
        let code =
            world
                .cuda
                .cuExternalMemoryGetMappedBuffer(Some(&mut pointer), memory, Some(&wanted));
        if code == 0 {
            world.cuda.sized(pointer.0, wanted.size as usize);
            let owner = world.owner();
            world.peer.open.push(Open::Buffer(Addr(pointer.0), owner));
        }
    } else {
        let wanted = CuExternalMemoryMipmappedArrayDesc {
            offset: 0,
            array: CuArray3dDescriptor {
                width: world.rng.within(1, 300),
                height: world.rng.within(1, 300),
                depth: 0,
                format: 1,
                num_channels: 1,
                flags: 0,
            },
            num_levels: 1,
            reserved: [0; 16],
        };
        let mut array = 0;
        let code = world.cuda.cuExternalMemoryGetMappedMipmappedArray(
            Some(&mut array),
            memory,
            Some(&wanted),
        );
        if code == 0 {
            let owner = world.owner();
            world.peer.open.push(Open::Array(array, owner));
        }
    }
    world.peer.open.push(Open::External(memory));
}

fn take_pool(world: &mut World, theirs: Theirs, file: &OwnedFd, data: [u8; 64]) {
    let mut pool = 0;
    let shared = Private(file.as_raw_fd() as usize);
    let code = world
        .cuda
        .cuMemPoolImportFromShareableHandle(Some(&mut pool), shared, 1, 0);
    if !world.expect(code) {
        return;
    }
    let data = Private(data);
    for _ in 0..world.rng.within(1, 3) {
        let mut pointer = Made(0);
        let code = world
            .cuda
            .cuMemPoolImportPointer(Some(&mut pointer), pool, Some(&data));
        if world.expect(code) {
            world.cuda.sized(pointer.0, theirs.bytes);
            world.peer.open.push(Open::Pointer(Addr(pointer.0)));
        }
    }
    world.peer.open.push(Open::Pool(pool));
}

fn close_by(world: &mut World, open: Open) -> u32 {
    match open {
        Open::Memory(pointer, _) => world.cuda.cuIpcCloseMemHandle(pointer),
        Open::Handle {
            handle, at, bytes, ..
        } => {
            let code = world.cuda.cuMemUnmap(at, bytes);
            world.expect(code);
            let code = world.cuda.cuMemAddressFree(at, bytes);
            world.expect(code);
            world.cuda.cuMemRelease(handle)
        }
        Open::Range(at, bytes) => world.cuda.cuMemAddressFree(at, bytes),
        Open::Pool(pool) => world.cuda.cuMemPoolDestroy(pool),
        Open::Pointer(pointer) if world.rng.percent(50) => world.cuda.cuMemFreeAsync(pointer, 0),
        Open::Pointer(pointer) | Open::Buffer(pointer, _) => world.cuda.cuMemFree_v2(pointer),
        Open::External(memory) => world.cuda.cuDestroyExternalMemory(memory),
        Open::Array(array, _) => world.cuda.cuMipmappedArrayDestroy(array),
    }
}

fn close(world: &mut World, open: Open) {
    if close_by(world, open) != 0 {
        // Without a context, or in a context that has ended, the close fails.
        context::bind(world);
        let code = close_by(world, open);
        world.expect(code);
    }
}

fn lend_memory(world: &mut World) {
    let wanted = |block: &Block| !block.managed && block.bytes < 4 << 20;
    if world.rng.find(&world.blocks.live, wanted).is_none() {
        let (mut pointer, bytes) = (Made(0), world.rng.within(1, 3 << 20));
        let code = world.cuda.cuMemAlloc_v2(Some(&mut pointer), bytes);
        device::made(world, code, pointer, bytes, false);
    }
    let place = world.rng.find(&world.blocks.live, wanted);
    let block = place.and_then(|place| world.blocks.live.get(place).copied());
    let Some(block) = block.filter(|_| world.peer.lent.len() < MOST) else {
        return;
    };
    let mut handle = CuIpcMemHandle { reserved: [0; 64] };
    let code = world
        .cuda
        .cuIpcGetMemHandle(Some(&mut handle), block.pointer);
    if code == 0 {
        let request = Request::on(Wanted::OpenMemory, block.owner.device, 0);
        lend(world, request.with(handle.reserved), None);
    }
}

/// Makes the peer open memory of the program; returns the item's number.
fn lend(world: &mut World, request: Request, file: Option<&OwnedFd>) -> Option<u64> {
    let (opened, _) = asked(world, request, file)?;
    world.peer.lent.push(opened.item);
    Some(opened.item)
}

fn lend_handle(world: &mut World) {
    let (mut handle, mut file) = (0, Private(-1));
    let device = world.rng.below(world.devices) as i32;
    let bytes = PAGE * world.rng.within(1, 5);
    if world.peer.lent.len() >= MOST || world.peer.handles.len() >= MOST {
        return;
    }
    let properties = vmm::properties(Some(device));
    let code = world
        .cuda
        .cuMemCreate(Some(&mut handle), bytes, Some(&properties), 0);
    if code != 0 {
        return;
    }
    world.peer.handles.push((handle, device));
    let code = world
        .cuda
        .cuMemExportToShareableHandle(Some(&mut file), handle, 1, 0);
    if world.expect(code) {
        // SAFETY: the driver created this descriptor for this process.
        let file = unsafe { OwnedFd::from_raw_fd(file.0) };
        let request = Request::on(Wanted::OpenHandle, device, bytes);
        lend(world, request, Some(&file));
    }
}

fn lend_pool(world: &mut World) {
    let (mut made, mut pointer) = (0, Made(0));
    let device = world.rng.below(world.devices) as i32;
    let bytes = world.rng.within(1, 3 << 20);
    if world.peer.lent.len() >= MOST || world.peer.own_pools.len() >= 3 {
        return;
    }
    let properties = pool::properties(device, 0);
    let code = world
        .cuda
        .cuMemPoolCreate(Some(&mut made), Some(&properties));
    if !world.expect(code) {
        return;
    }
    world.peer.own_pools.push(made);
    let code = world
        .cuda
        .cuMemAllocFromPoolAsync(Some(&mut pointer), bytes, made, 0);
    if code != 0 {
        return;
    }
    world.cuda.sized(pointer.0, bytes);
    let pointer = Addr(pointer.0);
    world.pools.blocks.push((pointer, device));
    let (mut shared, mut data) = (Private(usize::MAX), Private([0; 64]));
    let code = world
        .cuda
        .cuMemPoolExportToShareableHandle(Some(&mut shared), made, 1, 0);
    if !world.expect(code) {
        return;
    }
    // SAFETY: the driver created this descriptor for this process, in the lower half of the
    // variable.
    let file = unsafe { OwnedFd::from_raw_fd(shared.0 as u32 as i32) };
    let request = Request::on(Wanted::OpenPool, device, 0);
    let Some(opened) = lend(world, request, Some(&file)) else {
        return;
    };
    let code = world.cuda.cuMemPoolExportPointer(Some(&mut data), pointer);
    if world.expect(code) {
        let request = Request::on(Wanted::OpenPointer, device, 0);
        lend(world, request.of(opened).with(data.0), None);
    }
    if world.rng.percent(30) {
        world.peer.own_pools.pop();
        let code = world.cuda.cuMemPoolDestroy(made);
        world.expect(code);
    }
}

fn wrong(world: &mut World) {
    let handle = CuIpcMemHandle { reserved: [7; 64] };
    let (mut opened, mut pointer) = (Private(0), Made(0));
    world.cuda.cuIpcOpenMemHandle(Some(&mut opened), handle, 1);
    world
        .cuda
        .cuMemPoolImportPointer(Some(&mut pointer), 0x10, Some(&Private([7; 64])));
    world
        .cuda
        .cuMemPoolExportPointer(Some(&mut Private([0; 64])), Addr(world.arena));
    let open = world.rng.pick(&world.peer.open);
    if let Some(Open::Memory(pointer, _)) = open {
        // Opened memory must be closed, so freeing it fails.
        world.cuda.names.set_foreign(Some(pointer.0 as u64));
        world.cuda.cuMemFree_v2(Addr(pointer.0 as u64));
        world.cuda.names.set_foreign(None);
    }
}

fn ended(world: &mut World, ended: &Ended) {
    let lost = |device: i32| ended.takes(Owner { context: 0, device });
    for open in &mut world.peer.open {
        if let Open::Handle {
            device, at, bytes, ..
        } = *open
            && lost(device)
        {
            *open = Open::Range(at, bytes);
        }
    }
    world.peer.open.retain(|open| match open {
        Open::Memory(_, owner) | Open::Buffer(_, owner) | Open::Array(_, owner) => {
            !ended.takes(*owner)
        }
        _ => true,
    });
    world.peer.handles.retain(|(_, device)| !lost(*device));
}

fn end(world: &mut World) {
    for open in std::mem::take(&mut world.peer.open) {
        close(world, open);
    }
    for pool in std::mem::take(&mut world.peer.own_pools) {
        let code = world.cuda.cuMemPoolDestroy(pool);
        world.expect(code);
    }
    for (handle, _) in std::mem::take(&mut world.peer.handles) {
        let code = world.cuda.cuMemRelease(handle);
        world.expect(code);
    }
    let mut items = std::mem::take(&mut world.peer.lent);
    items.extend(
        std::mem::take(&mut world.peer.theirs)
            .iter()
            .map(|theirs| theirs.item),
    );
    items.append(&mut world.peer.pools);
    for item in items {
        release(world, item);
    }
    if world.alone
        && world.has_family("peer")
        && asked(world, Request::on(Wanted::Reset, 0, 0), None).is_none()
    {
        world.cuda.fail("the peer cannot give up all that it has");
    }
}

//! Memory shared between processes, as far as one process can do it: a handle that the same process
//! opens is the allocation itself, which is counted once.

use gpumem_cuda_abi::CuIpcMemHandle;

use crate::model::{Block, Ended};
use crate::pass::{Addr, Private};
use crate::world::{Family, World};

/// The family.
pub const FAMILY: Family = Family {
    name: "ipc",
    weight: 2,
    step,
    ended: |_: &mut World, _: &Ended| {},
    end,
};

fn step(world: &mut World) {
    let mut handle = CuIpcMemHandle { reserved: [0; 64] };
    match world.rng.below(6) {
        0..3 => {
            // Small blocks only: each is copied with the page that it shares.
            let wanted = |block: &Block| !block.managed && block.bytes < 4 << 20;
            let place = world.rng.find(&world.blocks.live, wanted);
            let block = place.and_then(|place| world.blocks.live.get(place).copied());
            let Some(block) = block else { return };
            let code = world
                .cuda
                .cuIpcGetMemHandle(Some(&mut handle), block.pointer);
            let mut opened = Private(0);
            if code == 0 && open(world, &mut opened, handle) == 0 {
                world.ipc.open.push(opened);
            }
        }
        3..5 => {
            if let Some(place) = world.rng.find(&world.ipc.open, |_| true) {
                let opened = world.ipc.open.swap_remove(place);
                world.cuda.cuIpcCloseMemHandle(opened);
            }
        }
        _ => {
            let mut opened = Private(0);
            open(world, &mut opened, handle);
            world.cuda.cuIpcCloseMemHandle(Private(0x10));
            let host = Addr(world.arena);
            world.cuda.cuIpcGetMemHandle(Some(&mut handle), host);
        }
    }
}

fn open(world: &mut World, opened: &mut Private<usize>, handle: CuIpcMemHandle) -> u32 {
    const LAZY_PEER_ACCESS: u32 = 1;
    let place = Some(opened);
    if world.rng.percent(70) {
        world
            .cuda
            .cuIpcOpenMemHandle_v2(place, handle, LAZY_PEER_ACCESS)
    } else {
        world
            .cuda
            .cuIpcOpenMemHandle(place, handle, LAZY_PEER_ACCESS)
    }
}

fn end(world: &mut World) {
    for opened in std::mem::take(&mut world.ipc.open) {
        world.cuda.cuIpcCloseMemHandle(opened);
    }
}

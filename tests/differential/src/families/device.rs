//! Device memory, plain, pitched and managed.

use crate::model::{Block, Ended};
use crate::pass::{Addr, Made};
use crate::world::{Family, World};

/// Plain and pitched memory.
pub const FAMILY: Family = Family {
    name: "device",
    weight: 24,
    step,
    ended,
    end,
};

/// Managed memory, with the same blocks.
pub const MANAGED: Family = Family {
    name: "managed",
    weight: 8,
    step: step_managed,
    ended: |_, _| {},
    end: |_| {},
};

/// Adds a block to the model if the call succeeded.
pub fn made(world: &mut World, code: u32, pointer: Made, bytes: usize, managed: bool) {
    if code != 0 {
        return;
    }
    world.cuda.sized(pointer.0, bytes);
    let owner = world.owner();
    world.blocks.live.push(Block {
        pointer: Addr(pointer.0),
        bytes,
        owner,
        managed,
    });
}

fn step(world: &mut World) {
    match world.rng.below(24) {
        0..9 => alloc(world),
        9..12 => pitch(world),
        12..21 => free_one(world, |block| !block.managed),
        21 => wrong(world),
        22 => ask(world),
        _ => {
            // A null pointer for the answer.
            world.cuda.cuMemAlloc_v2(None, 4096);
        }
    }
}

fn alloc(world: &mut World) {
    for _ in 0..world.rng.within(1, 4) {
        let (mut pointer, bytes) = (Made(0), world.bytes());
        let code = world.cuda.cuMemAlloc_v2(Some(&mut pointer), bytes);
        made(world, code, pointer, bytes, false);
    }
}

fn pitch(world: &mut World) {
    let (mut pointer, mut pitch) = (Made(0), 0);
    let (width, height) = match world.rng.below(12) {
        0 => (0, 7),
        1 => (usize::MAX - 3, 9),
        _ => (world.rng.within(1, 5000), world.rng.within(1, 900)),
    };
    let element = world.rng.pick(&[4, 8, 16, 16, 3]).unwrap_or(4);
    let code =
        world
            .cuda
            .cuMemAllocPitch_v2(Some(&mut pointer), Some(&mut pitch), width, height, element);
    made(world, code, pointer, pitch.saturating_mul(height), false);
}

fn free_one(world: &mut World, wanted: impl Fn(&Block) -> bool) {
    let Some(place) = world.rng.find(&world.blocks.live, wanted) else {
        return;
    };
    let block = world.blocks.live.swap_remove(place);
    free(world, block);
    if world.alone && world.rng.percent(6) {
        // A second free, before another thread can have received this address.
        world.cuda.cuMemFree_v2(block.pointer);
    }
}

fn free(world: &mut World, block: Block) {
    let mut code = if world.rng.percent(4) {
        world.cuda.cuMemFreeAsync(block.pointer, 0)
    } else {
        world.cuda.cuMemFree_v2(block.pointer)
    };
    if code != 0 {
        // The thread has no context in which to free it.
        crate::families::context::bind(world);
        code = world.cuda.cuMemFree_v2(block.pointer);
        world.expect(code);
    }
    if code != 0 {
        world.blocks.live.push(block);
    }
}

fn wrong(world: &mut World) {
    let inside = world
        .rng
        .pick(&world.blocks.live)
        .map_or(0, |block| block.pointer.0 + 1);
    let pointer = world.rng.pick(&[0, 0x10, inside, inside]).unwrap_or(0);
    if world.rng.percent(70) {
        world.cuda.cuMemFree_v2(Addr(pointer));
    } else {
        world.cuda.cuMemFreeAsync(Addr(pointer), 0);
    }
}

fn ask(world: &mut World) {
    let Some(block) = world.rng.pick(&world.blocks.live) else {
        return;
    };
    let (mut base, mut bytes) = (Addr(0), 0);
    let inside = Addr(block.pointer.0 + world.rng.below(block.bytes) as u64);
    world
        .cuda
        .cuMemGetAddressRange_v2(Some(&mut base), Some(&mut bytes), inside);
    let mut device = 0;
    world
        .cuda
        .cuPointerGetAttribute(Some(&mut device), 9, inside);
}

fn step_managed(world: &mut World) {
    match world.rng.below(10) {
        0..4 => {
            let (mut pointer, bytes) = (Made(0), world.bytes());
            let flags = world.rng.pick(&[1, 1, 2, 4, 3]).unwrap_or(1);
            let code = world
                .cuda
                .cuMemAllocManaged(Some(&mut pointer), bytes, flags);
            made(world, code, pointer, bytes, true);
        }
        4..8 => free_one(world, |block| block.managed),
        _ => {
            let wanted = world.rng.find(&world.blocks.live, |block| block.managed);
            let block = wanted.and_then(|place| world.blocks.live.get(place).copied());
            if let Some(Block { pointer, bytes, .. }) = block {
                let to = world.rng.pick(&[-1, 0, 0, 77]).unwrap_or(0);
                if world.rng.percent(60) {
                    world.cuda.cuMemPrefetchAsync(pointer, bytes, to, 0);
                } else {
                    world.cuda.cuMemAdvise(pointer, bytes, 3, to);
                }
            }
        }
    }
}

fn ended(world: &mut World, ended: &Ended) {
    world.blocks.live.retain(|block| !ended.takes(block.owner));
}

fn end(world: &mut World) {
    // Some blocks are freed and the others end with their contexts. Where threads call at once, a
    // primary context outlives the sequence.
    let all = !world.alone || world.rng.percent(30);
    for block in std::mem::take(&mut world.blocks.live) {
        if all || world.rng.percent(20) {
            free(world, block);
        } else {
            world.blocks.live.push(block);
        }
    }
}

//! Host memory: pinned memory, and registered memory of the program.

use crate::model::{Ended, Owner};
use crate::pass::{Addr, Made};
use crate::world::{Family, World};

/// Pinned memory.
pub const FAMILY: Family = Family {
    name: "host",
    weight: 10,
    step,
    ended,
    end,
};

/// Registered memory.
pub const REGISTERED: Family = Family {
    name: "register",
    weight: 5,
    step: step_registered,
    ended: |_, _| {},
    end: |_| {},
};

/// Bytes of a slot in the arena.
pub const SLOT: usize = 64 << 10;
/// Slots per thread.
pub const SLOTS: usize = 16;

fn step(world: &mut World) {
    match world.rng.below(16) {
        0..6 => {
            let mut pointer = Made(0);
            let bytes = match world.rng.below(20) {
                0 => 0,
                1 => 1 << 60,
                _ => world.rng.bytes(),
            };
            let place = Some(&mut pointer);
            let code = match (world.rng.below(5), u32::try_from(bytes)) {
                (0, Ok(bytes)) => world.cuda.cuMemAllocHost(place, bytes),
                (0..3, _) => world.cuda.cuMemAllocHost_v2(place, bytes),
                _ => {
                    let flags = world.rng.pick(&[0, 1, 2, 4, 64]).unwrap_or(0);
                    world.cuda.cuMemHostAlloc(place, bytes, flags)
                }
            };
            if code == 0 && pointer.0 != 0 {
                world.cuda.sized(pointer.0, bytes);
                let owner = world.owner();
                world.host.pinned.push((Addr(pointer.0), owner));
            }
        }
        6..13 => {
            if let Some(place) = world.rng.find(&world.host.pinned, |_| true) {
                let block = world.host.pinned.swap_remove(place);
                free(world, block);
                if world.alone && world.rng.percent(6) {
                    world.cuda.cuMemFreeHost(block.0);
                }
            }
        }
        13 => {
            let inside = world.rng.pick(&world.host.pinned).map_or(0, |b| b.0.0 + 1);
            let device = world.rng.pick(&world.blocks.live);
            let device = device.map_or(0, |block| block.pointer.0);
            let wrong = world.rng.pick(&[0, 0x10, inside, device]).unwrap_or(0);
            world.cuda.cuMemFreeHost(Addr(wrong));
        }
        14 => {
            // Pinned memory is not device memory.
            if let Some((pointer, _)) = world.rng.pick(&world.host.pinned) {
                world.cuda.cuMemFree_v2(pointer);
            }
        }
        _ => {
            if let Some((pointer, _)) = world.rng.pick(&world.host.pinned) {
                let (mut device, mut flags) = (Addr(0), 0);
                world
                    .cuda
                    .cuMemHostGetDevicePointer_v2(Some(&mut device), pointer, 0);
                world.cuda.cuMemHostGetFlags(Some(&mut flags), pointer);
            }
        }
    }
}

fn free(world: &mut World, block: (Addr, Owner)) {
    let mut code = world.cuda.cuMemFreeHost(block.0);
    if code != 0 {
        super::context::bind(world);
        code = world.cuda.cuMemFreeHost(block.0);
        world.expect(code);
    }
    if code != 0 {
        world.host.pinned.push(block);
    }
}

fn step_registered(world: &mut World) {
    match world.rng.below(10) {
        0..5 => {
            let slot = world.rng.below(SLOTS) as u64;
            let pointer = Addr(world.arena + slot * SLOT as u64);
            let bytes = match world.rng.below(12) {
                0 => 0,
                1 => SLOT + 4096, // overlaps the next slot, which may be registered
                _ => 1 + world.rng.below(SLOT),
            };
            let flags = world.rng.pick(&[0, 1, 2, 64]).unwrap_or(0);
            let code = if world.rng.percent(75) {
                world.cuda.cuMemHostRegister_v2(pointer, bytes, flags)
            } else {
                world.cuda.cuMemHostRegister(pointer, bytes, flags)
            };
            if code == 0 {
                let owner = world.owner();
                world.host.registered.push((pointer, owner));
            }
        }
        5..9 => {
            if let Some(place) = world.rng.find(&world.host.registered, |_| true) {
                let block = world.host.registered.swap_remove(place);
                unregister(world, block);
                if world.rng.percent(10) {
                    world.cuda.cuMemHostUnregister(block.0);
                }
            }
        }
        _ => {
            let pinned = world.rng.pick(&world.host.pinned).map_or(0, |b| b.0.0);
            let wrong = world.rng.pick(&[0, 0x10, pinned]).unwrap_or(0);
            world.cuda.cuMemHostUnregister(Addr(wrong));
        }
    }
}

fn unregister(world: &mut World, block: (Addr, Owner)) {
    let mut code = world.cuda.cuMemHostUnregister(block.0);
    if code != 0 {
        super::context::bind(world);
        code = world.cuda.cuMemHostUnregister(block.0);
        world.expect(code);
    }
    if code != 0 {
        world.host.registered.push(block);
    }
}

fn ended(world: &mut World, ended: &Ended) {
    let host = &mut world.host;
    host.pinned.retain(|(_, owner)| !ended.takes(*owner));
    host.registered.retain(|(_, owner)| !ended.takes(*owner));
}

fn end(world: &mut World) {
    let all = !world.alone || world.rng.percent(30);
    for block in std::mem::take(&mut world.host.pinned) {
        if all {
            free(world, block);
        } else {
            world.host.pinned.push(block);
        }
    }
    for block in std::mem::take(&mut world.host.registered) {
        if all {
            unregister(world, block);
        } else {
            world.host.registered.push(block);
        }
    }
}

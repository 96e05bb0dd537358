//! The runtime's allocations: each is also one of the driver's, and is counted once.

use super::device::made;
use crate::model::Ended;
use crate::pass::{Addr, Made};
use crate::world::{Family, World};

/// The family.
pub const FAMILY: Family = Family {
    name: "runtime",
    weight: 6,
    step,
    ended: |_: &mut World, _: &Ended| {},
    end: |_| {},
};

fn step(world: &mut World) {
    let (mut pointer, mut pitch, bytes) = (Made(0), 0, world.bytes());
    let place = Some(&mut pointer);
    match world.rng.below(16) {
        0 => {
            let device = world.device();
            world.cuda.cudaSetDevice(device);
        }
        1..5 => {
            let code = world.cuda.cudaMalloc(place, bytes);
            made_by_runtime(world, code, pointer, bytes, false);
        }
        5 => {
            let (width, height) = (world.rng.within(1, 5000), world.rng.within(1, 500));
            let code = world
                .cuda
                .cudaMallocPitch(place, Some(&mut pitch), width, height);
            made_by_runtime(world, code, pointer, pitch.saturating_mul(height), false);
        }
        6 => {
            let code = world.cuda.cudaMallocManaged(place, bytes, 1);
            made_by_runtime(world, code, pointer, bytes, true);
        }
        7 => {
            let bytes = world.rng.bytes();
            let code = if world.rng.percent(50) {
                world.cuda.cudaMallocHost(place, bytes)
            } else {
                world.cuda.cudaHostAlloc(place, bytes, 0)
            };
            if code == 0 {
                world.cuda.sized(pointer.0, bytes);
                let owner = world.owner();
                world.host.pinned.push((Addr(pointer.0), owner));
            }
        }
        8..10 => {
            let code = if world.rng.percent(50) {
                world.cuda.cudaMallocAsync(place, bytes, 0)
            } else {
                world.cuda.cudaMallocAsync_ptsz(place, bytes, 0)
            };
            if code == 0 && pointer.0 != 0 {
                world.cuda.sized(pointer.0, bytes);
                let device = world.owner().device;
                world.pools.blocks.push((Addr(pointer.0), device));
            }
        }
        10..13 => {
            if let Some(place) = world.rng.find(&world.blocks.live, |_| true) {
                let block = world.blocks.live.swap_remove(place);
                if world.cuda.cudaFree(block.pointer) != 0 {
                    world.blocks.live.push(block);
                }
            }
        }
        13 => {
            if let Some(place) = world.rng.find(&world.host.pinned, |_| true) {
                let block = world.host.pinned.swap_remove(place);
                if world.cuda.cudaFreeHost(block.0) != 0 {
                    world.host.pinned.push(block);
                }
            }
        }
        14 => {
            if let Some(place) = world.rng.find(&world.pools.blocks, |_| true) {
                let block = world.pools.blocks.swap_remove(place);
                if world.cuda.cudaFreeAsync(block.0, 0) != 0 {
                    world.pools.blocks.push(block);
                }
            }
        }
        _ => drop(world.cuda.cudaDeviceSynchronize()),
    }
}

/// As the driver's, but for a size of 0 the runtime returns a null pointer.
fn made_by_runtime(world: &mut World, code: u32, pointer: Made, bytes: usize, managed: bool) {
    if pointer.0 != 0 {
        made(world, code, pointer, bytes, managed);
    }
}

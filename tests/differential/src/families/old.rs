//! Functions from before CUDA 3.2, with addresses and sizes of 32 bits. Current contexts refuse them,
//! and then nothing may be recorded.

use gpumem_cuda_abi::{CuArray3dDescriptorV1, CuArrayDescriptorV1};

use crate::model::Ended;
use crate::pass::Private;
use crate::world::{Family, World};

/// The family. Its steps leave no memory live.
pub const FAMILY: Family = Family {
    name: "old",
    weight: 2,
    step,
    ended: |_: &mut World, _: &Ended| {},
    end: |_| {},
};

fn step(world: &mut World) {
    let (mut first, mut second) = (0, 0);
    let (mut array, bytes) = (0, world.rng.below(1 << 20) as u32);
    let (width, height) = (world.rng.below(500) as u32, world.rng.below(300) as u32);
    let cuda = &mut world.cuda;
    match world.rng.below(7) {
        0 => cuda.cuMemAlloc(Some(&mut first), bytes),
        1 => cuda.cuMemAllocPitch(Some(&mut first), Some(&mut second), width, height, 4),
        2 => {
            // The lower half of an address.
            let low = world.rng.pick(&world.blocks.live);
            let low = low.map_or(0x10, |block| block.pointer.0 as u32);
            cuda.cuMemFree(Private(low))
        }
        3 => cuda.cuMemGetInfo(Some(&mut first), Some(&mut second)),
        4 => cuda.cuMemGetAddressRange(Some(&mut first), Some(&mut second), bytes),
        5 => {
            let descriptor = CuArrayDescriptorV1 {
                width,
                height,
                format: 0x20,
                num_channels: 4,
            };
            cuda.cuArrayCreate(Some(&mut array), Some(&descriptor))
        }
        _ => {
            let descriptor = CuArray3dDescriptorV1 {
                width,
                height,
                depth: 3,
                format: 0x20,
                num_channels: 4,
                flags: 0,
            };
            cuda.cuArray3DCreate(Some(&mut array), Some(&descriptor))
        }
    };
}

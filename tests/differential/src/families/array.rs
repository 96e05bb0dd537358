//! Arrays, in one to three dimensions, and mipmapped ones.

use gpumem_cuda_abi::{CuArray3dDescriptor, CuArrayDescriptor};

use crate::model::{Array, Ended};
use crate::world::{Family, World};

/// The family.
pub const FAMILY: Family = Family {
    name: "array",
    weight: 10,
    step,
    ended,
    end,
};

fn step(world: &mut World) {
    match world.rng.below(12) {
        0..5 => create(world),
        5..10 => {
            if let Some(place) = world.rng.find(&world.arrays.live, |_| true) {
                let array = world.arrays.live.swap_remove(place);
                destroy(world, array);
            }
        }
        10 => {
            let gone = world.rng.pick(&world.arrays.gone).unwrap_or(0x10);
            if world.rng.percent(50) {
                world.cuda.cuArrayDestroy(gone);
            } else {
                world.cuda.cuMipmappedArrayDestroy(gone);
            }
            world.cuda.cuArrayCreate_v2(None, None);
        }
        _ => {
            if let Some(array) = world.rng.pick(&world.arrays.live) {
                ask(world, array);
            }
        }
    }
}

fn create(world: &mut World) {
    const FORMATS: [u32; 6] = [0x01, 0x02, 0x03, 0x10, 0x20, 0x7f];
    let width = world.rng.below(2000);
    let (height, depth) = (world.rng.below(600), world.rng.below(12));
    let format = world.rng.pick(&FORMATS).unwrap_or(1);
    let num_channels = world.rng.pick(&[1, 2, 4, 4, 3]).unwrap_or(1);
    let mut handle = 0;
    let place = Some(&mut handle);
    let kind = world.rng.below(3);
    let code = if kind == 0 {
        let descriptor = CuArrayDescriptor {
            width,
            height,
            format,
            num_channels,
        };
        world.cuda.cuArrayCreate_v2(place, Some(&descriptor))
    } else {
        let descriptor = CuArray3dDescriptor {
            width,
            height,
            depth,
            format,
            num_channels,
            flags: 0,
        };
        if kind == 1 {
            world.cuda.cuArray3DCreate_v2(place, Some(&descriptor))
        } else {
            let levels = world.rng.below(6) as u32;
            world
                .cuda
                .cuMipmappedArrayCreate(place, Some(&descriptor), levels)
        }
    };
    if code == 0 {
        let owner = world.owner();
        world.arrays.live.push(Array {
            handle,
            mipmapped: kind == 2,
            owner,
        });
    }
}

fn ask(world: &mut World, array: Array) {
    let mut answer = [0; 4];
    if array.mipmapped {
        world.cuda.cuMipmappedArrayGetMemoryRequirements(
            Some(&mut answer),
            array.handle,
            array.owner.device,
        );
        let mut level = 0;
        let code = world
            .cuda
            .cuMipmappedArrayGetLevel(Some(&mut level), array.handle, 1);
        if code == 0 {
            // A level is not a separate array.
            world.cuda.cuArrayDestroy(level);
        }
    } else {
        world.cuda.cuArrayGetMemoryRequirements(
            Some(&mut answer),
            array.handle,
            array.owner.device,
        );
    }
}

fn destroy_once(world: &mut World, array: Array) -> u32 {
    if array.mipmapped {
        world.cuda.cuMipmappedArrayDestroy(array.handle)
    } else {
        world.cuda.cuArrayDestroy(array.handle)
    }
}

fn destroy(world: &mut World, array: Array) {
    let mut code = destroy_once(world, array);
    if code != 0 {
        super::context::bind(world);
        code = destroy_once(world, array);
        world.expect(code);
    }
    if code == 0 {
        world.arrays.gone.push(array.handle);
    } else {
        world.arrays.live.push(array);
    }
}

fn ended(world: &mut World, ended: &Ended) {
    world.arrays.live.retain(|array| !ended.takes(array.owner));
}

fn end(world: &mut World) {
    let all = !world.alone || world.rng.percent(40);
    for array in std::mem::take(&mut world.arrays.live) {
        if all {
            destroy(world, array);
        } else {
            world.arrays.live.push(array);
        }
    }
    world.arrays.gone.clear();
}

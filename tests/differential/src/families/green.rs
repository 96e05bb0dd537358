//! Green contexts: parts of a device. Each holds a reference to the device's primary context.

use super::{context, device, pool};
use crate::model::Ended;
use crate::pass::{DeviceResource, Made};
use crate::world::{Family, World};

/// The family.
pub const FAMILY: Family = Family {
    name: "green",
    weight: 4,
    step,
    ended: |_: &mut World, _: &Ended| {},
    end,
};

/// `CU_DEV_RESOURCE_TYPE_SM`.
const MULTIPROCESSORS: u32 = 1;
/// `CU_GREEN_CTX_DEFAULT_STREAM`, which is required.
const DEFAULT_STREAM: u32 = 1;

fn step(world: &mut World) {
    match world.rng.below(16) {
        0..5 => create(world),
        5..9 => {
            if let Some(place) = world.rng.find(&world.greens.live, |_| true) {
                let green = world.greens.live.swap_remove(place);
                destroy(world, green);
            }
        }
        9..13 => allocate(world),
        13 => stream(world),
        14 => {
            if let Some((green, _)) = world.rng.pick(&world.greens.live) {
                let mut resource = DeviceResource::default();
                let kind = world.rng.pick(&[MULTIPROCESSORS, 7]).unwrap_or(0);
                world
                    .cuda
                    .cuGreenCtxGetDevResource(green, Some(&mut resource), kind);
            }
        }
        _ => wrong(world),
    }
}

/// The description of a part of the device, or of all of it.
fn describe(world: &mut World, device: i32) -> usize {
    let (mut all, mut part) = (DeviceResource::default(), DeviceResource::default());
    world
        .cuda
        .cuDeviceGetDevResource(device, Some(&mut all), MULTIPROCESSORS);
    let (mut description, mut groups) = (0, 1);
    if world.rng.percent(60) {
        let least = world.rng.within(1, 40) as u32;
        let code = world.cuda.cuDevSmResourceSplitByCount(
            Some(&mut part),
            Some(&mut groups),
            Some(&all),
            None,
            0,
            least,
        );
        if code == 0 && groups == 1 {
            all = part;
        }
    }
    world
        .cuda
        .cuDevResourceGenerateDesc(Some(&mut description), Some(&all), 1);
    description
}

fn create(world: &mut World) {
    if world.greens.live.len() >= 4 {
        return;
    }
    let (mut green, device) = (0, world.device());
    let described = if world.rng.percent(4) { 0 } else { device };
    let description = describe(world, described);
    let flags = if world.rng.percent(4) {
        0
    } else {
        DEFAULT_STREAM
    };
    let code = world
        .cuda
        .cuGreenCtxCreate(Some(&mut green), description, device, flags);
    if code == 0 {
        world.greens.live.push((green, device));
    }
}

fn destroy(world: &mut World, (green, device): (usize, i32)) {
    let primary = context::primary_handle(world, device);
    let before = context::is_active(world, device);
    let code = world.cuda.cuGreenCtxDestroy(green);
    world.expect(code);
    world.greens.gone.push(green);
    if before && !context::is_active(world, device) {
        context::over(world, primary, device);
    }
}

/// Allocates through a green context; the memory belongs to the primary one.
fn allocate(world: &mut World) {
    let Some((green, _)) = world.rng.pick(&world.greens.live) else {
        return;
    };
    let mut context = 0;
    let code = world.cuda.cuCtxFromGreenCtx(Some(&mut context), green);
    if !world.expect(code) {
        return;
    }
    let code = world.cuda.cuCtxSetCurrent(context);
    if world.expect(code) {
        for _ in 0..world.rng.within(1, 3) {
            let (mut pointer, bytes) = (Made(0), world.rng.bytes());
            let code = world.cuda.cuMemAlloc_v2(Some(&mut pointer), bytes);
            device::made(world, code, pointer, bytes, false);
        }
    }
}

fn stream(world: &mut World) {
    const NON_BLOCKING: u32 = 1;
    let Some((green, device)) = world.rng.pick(&world.greens.live) else {
        return;
    };
    let (mut context, mut stream) = (0, 0);
    world.cuda.cuCtxFromGreenCtx(Some(&mut context), green);
    let code = world
        .cuda
        .cuGreenCtxStreamCreate(Some(&mut stream), green, NON_BLOCKING, 0);
    if code == 0 {
        pool::stream_made(world, stream, context, device);
    }
}

fn wrong(world: &mut World) {
    let gone = world.rng.pick(&world.greens.gone).unwrap_or(0x10);
    let mut made = 0;
    match world.rng.below(3) {
        0 => world.cuda.cuGreenCtxDestroy(gone),
        1 => world.cuda.cuCtxFromGreenCtx(Some(&mut made), gone),
        _ => world
            .cuda
            .cuGreenCtxCreate(Some(&mut made), gone, 0, DEFAULT_STREAM),
    };
}

fn end(world: &mut World) {
    // A green context may hold the last reference to its primary one, which then ends with all its
    // memory.
    match world.rng.below(3) {
        0 if world.alone => (context::FAMILY.end)(world),
        1 if world.alone => {
            for device in 0..world.devices as i32 {
                if world.greens.hold(device) {
                    context::release_all(world, device);
                }
            }
        }
        _ => {}
    }
    for green in std::mem::take(&mut world.greens.live) {
        destroy(world, green);
    }
    world.greens.gone.clear();
}

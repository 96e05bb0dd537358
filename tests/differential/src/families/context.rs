//! Contexts: creation, destruction, and the current context.

use crate::model::{Ended, Owner};
use crate::world::{Family, World};

/// The family.
pub const FAMILY: Family = Family {
    name: "context",
    weight: 8,
    step,
    ended,
    end,
};

/// Makes a live context current if the current one is not usable.
pub fn bind(world: &mut World) {
    let usable = world.contexts.usable();
    if usable.is_empty() {
        let device = world.rng.below(world.devices) as i32;
        retain(world, device);
    }
    let mut current = 0;
    world.cuda.cuCtxGetCurrent(Some(&mut current));
    if usable.contains(&current) && !world.rng.percent(25) {
        return;
    }
    if let Some(context) = world.rng.pick(&world.contexts.usable()) {
        let code = world.cuda.cuCtxSetCurrent(context);
        world.expect(code);
    }
}

/// Retains a primary context.
pub fn retain(world: &mut World, device: i32) {
    let mut context = 0;
    let code = world
        .cuda
        .cuDevicePrimaryCtxRetain(Some(&mut context), device);
    if code == 0
        && let Some(primary) = world.contexts.primary.get_mut(device as usize)
    {
        *primary = (primary.0 + 1, context);
    }
}

/// Whether the primary context of the device is active.
pub fn is_active(world: &mut World, device: i32) -> bool {
    let (mut flags, mut active) = (0, 0);
    let code = world
        .cuda
        .cuDevicePrimaryCtxGetState(device, Some(&mut flags), Some(&mut active));
    code == 0 && active != 0
}

/// Whether the device has any live context.
pub fn any_on(world: &mut World, device: i32) -> bool {
    let created = world.contexts.created.iter().any(|c| c.device == device);
    created || is_active(world, device)
}

/// Removes an ended context from the model.
pub fn over(world: &mut World, context: usize, device: i32) {
    let last = !any_on(world, device);
    world.ended(Ended {
        context,
        device,
        last,
    });
}

fn release(world: &mut World, device: i32) {
    let before = is_active(world, device);
    let code = if world.rng.percent(80) {
        world.cuda.cuDevicePrimaryCtxRelease_v2(device)
    } else {
        world.cuda.cuDevicePrimaryCtxRelease(device)
    };
    let Some(primary) = world.contexts.primary.get_mut(device.max(0) as usize) else {
        return;
    };
    if code == 0 {
        primary.0 = primary.0.saturating_sub(1);
        let handle = primary.1;
        if before && !is_active(world, device) {
            over(world, handle, device);
        }
    }
}

fn reset(world: &mut World, device: i32) {
    let before = is_active(world, device);
    let handle = primary_handle(world, device);
    let code = if world.rng.percent(80) {
        world.cuda.cuDevicePrimaryCtxReset_v2(device)
    } else {
        world.cuda.cuDevicePrimaryCtxReset(device)
    };
    if code == 0 && before {
        over(world, handle, device);
    }
}

/// The handle of a device's primary context, which may be active through another user's reference.
pub fn primary_handle(world: &mut World, device: i32) -> usize {
    let known = world.contexts.primary.get(device as usize);
    match known.copied() {
        Some((_, 0)) if is_active(world, device) => {
            let mut handle = 0;
            world
                .cuda
                .cuDevicePrimaryCtxRetain(Some(&mut handle), device);
            world.cuda.cuDevicePrimaryCtxRelease_v2(device);
            handle
        }
        known => known.map_or(0, |(_, handle)| handle),
    }
}

fn create(world: &mut World) {
    let (mut context, device) = (0, world.device());
    let code = match world.rng.below(4) {
        0 => world.cuda.cuCtxCreate_v2(Some(&mut context), 0, device),
        1 => world.cuda.cuCtxCreate(Some(&mut context), 0, device),
        2 => world
            .cuda
            .cuCtxCreate_v3(Some(&mut context), 0, 0, 0, device),
        _ => world.cuda.cuCtxCreate_v4(Some(&mut context), 0, 0, device),
    };
    if code == 0 {
        world.contexts.created.push(Owner { context, device });
    }
}

fn destroy(world: &mut World, context: Owner) {
    let code = if world.rng.percent(75) {
        world.cuda.cuCtxDestroy_v2(context.context)
    } else {
        world.cuda.cuCtxDestroy(context.context)
    };
    if code == 0 {
        destroyed(world, context);
    }
}

fn destroyed(world: &mut World, context: Owner) {
    world.contexts.created.retain(|other| *other != context);
    world.contexts.gone.push(context.context);
    over(world, context.context, context.device);
}

fn attach(world: &mut World) {
    let mut context = 0;
    let flags = u32::from(world.rng.percent(5));
    if world.cuda.cuCtxAttach(Some(&mut context), flags) == 0 {
        world.contexts.attached.push(context);
    }
}

/// Detaches from the current context. The last detach ends a context that the program created.
fn detach(world: &mut World) {
    let mut context = 0;
    world.cuda.cuCtxGetCurrent(Some(&mut context));
    let held = world.contexts.attached.iter();
    let held = held.copied().position(|attached| attached == context);
    let own = world.contexts.created.iter();
    let own = own.copied().find(|own| own.context == context);
    // Without a reference of this program the call must fail, but the context may be another
    // thread's.
    if held.is_none() && own.is_none() && !(world.alone && world.rng.percent(20)) {
        return;
    }
    let code = world.cuda.cuCtxDetach(context);
    match (held, own) {
        (Some(place), _) => {
            if world.expect(code) {
                world.contexts.attached.swap_remove(place);
            }
        }
        (None, Some(own)) => {
            if world.expect(code) {
                destroyed(world, own);
            }
        }
        (None, None) => {}
    }
}

fn step(world: &mut World) {
    let device = world.device();
    let held = world.contexts.primary.get(device as usize);
    let held = held.map_or(0, |primary| primary.0);
    match world.rng.below(23) {
        20 | 21 => attach(world),
        22 => detach(world),
        0..4 => retain(world, device),
        // Where threads call at once, each keeps a reference, because releasing the last one ends a
        // context that others use. A release without a reference must fail. The runtime and green
        // contexts have references that the program must not release.
        4..6 if held > 1
            || (world.alone
                && (held > 0 || !(world.has_family("runtime") || world.greens.hold(device)))) =>
        {
            release(world, device);
        }
        6 if world.alone => reset(world, device),
        7..9 if world.contexts.created.len() < 3 => create(world),
        9..11 => {
            if let Some(context) = world.rng.pick(&world.contexts.created) {
                destroy(world, context);
            }
        }
        11 => {
            // A stale context, a primary one, or one that does not exist.
            let stale = world.rng.pick(&world.contexts.gone).unwrap_or(0);
            let primary = world.rng.pick(&world.contexts.primary).map_or(0, |p| p.1);
            let context = world.rng.pick(&[stale, primary, 0x10]).unwrap_or(0);
            world.cuda.cuCtxDestroy_v2(context);
        }
        12 => {
            let stale = world.rng.pick(&world.contexts.gone).unwrap_or(0);
            world.cuda.cuCtxSetCurrent(stale);
        }
        13 => {
            if let Some(context) = world.rng.pick(&world.contexts.usable()) {
                world.cuda.cuCtxPushCurrent_v2(context);
            }
        }
        14 => {
            let mut popped = 0;
            world.cuda.cuCtxPopCurrent_v2(Some(&mut popped));
        }
        15 | 16 => limit(world),
        17 => {
            let (mut free, mut total) = (0, 0);
            world
                .cuda
                .cuMemGetInfo_v2(Some(&mut free), Some(&mut total));
        }
        _ => {
            if world.rng.percent(50) {
                world.cuda.cuCtxSynchronize();
            } else {
                world.cuda.cuCtxSynchronize_v2(0);
            }
        }
    }
}

fn limit(world: &mut World) {
    const STACK: u32 = 0;
    const PRINTF: u32 = 1;
    const HEAP: u32 = 2;
    let limit = world
        .rng
        .pick(&[STACK, PRINTF, HEAP, HEAP, 99])
        .unwrap_or(0);
    let value = match limit {
        STACK => 512 << world.rng.below(5),
        PRINTF => (512 << 10) << world.rng.below(6),
        _ => (4 << 20) << world.rng.below(5),
    };
    world.cuda.cuCtxSetLimit(limit, value);
    let mut now = 0;
    world.cuda.cuCtxGetLimit(Some(&mut now), limit);
}

fn ended(world: &mut World, ended: &Ended) {
    let attached = &mut world.contexts.attached;
    attached.retain(|context| *context != ended.context);
}

/// Empties the calling thread's stack of contexts.
pub fn unbind(world: &mut World) {
    let mut popped = 0;
    while world.cuda.cuCtxPopCurrent_v2(Some(&mut popped)) == 0 {}
}

/// Destroys the contexts that the program created.
pub fn end_created(world: &mut World) {
    for context in world.contexts.created.clone() {
        destroy(world, context);
    }
}

/// Releases every reference to a device's primary context.
pub fn release_all(world: &mut World, device: i32) {
    let held = world.contexts.primary.get(device as usize);
    for _ in 0..held.map_or(0, |primary| primary.0) {
        release(world, device);
    }
}

fn end(world: &mut World) {
    end_created(world);
    for device in 0..world.devices as i32 {
        if world.alone && world.rng.percent(50) {
            reset(world, device);
        }
        release_all(world, device);
        // A runtime has separate references.
        if world.alone && is_active(world, device) {
            reset(world, device);
        }
    }
    world.contexts.gone.clear();
}

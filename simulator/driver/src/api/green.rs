//! Green contexts and their resources.

use super::{event, stream};
use crate::ffi::{Answer, CuError, Handle, In, Out, require};
use crate::model::State;
use crate::model::context::{pop, push};
use crate::model::green::{self, INVALID_TYPE, Multiprocessors, Resource};
use crate::model::state::state;
use gpumem_cuda_abi::CuDevice;

/// `CU_GREEN_CTX_DEFAULT_STREAM`, a required flag.
const DEFAULT_STREAM: u32 = 1;
/// `CU_STREAM_NON_BLOCKING`, a required flag of streams.
const NON_BLOCKING: u32 = 1;
/// `CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING`.
const IGNORE_COSCHEDULING: u32 = 1;

/// All multiprocessors of a device.
fn all_of(state: &State, device: usize) -> Answer<Resource> {
    let spec = state.machine.visible_device(device);
    let spec = spec.ok_or(CuError::INVALID_DEVICE)?;
    let step = if spec.compute_capability >= (9, 0) {
        8
    } else {
        2
    };
    Ok(Resource::new(
        device,
        Multiprocessors {
            count: spec.multiprocessors,
            least: step,
            step,
            flags: 0,
        },
    ))
}

fn check_type(kind: u32) -> Answer {
    if kind == green::MULTIPROCESSORS {
        Ok(())
    } else {
        Err(INVALID_TYPE)
    }
}

/// `cuDeviceGetDevResource`: the multiprocessors; work queues are not simulated.
pub extern "C" fn get_device_resource(device: CuDevice, out: Out<Resource>, kind: u32) -> Answer {
    let state = state()?;
    let device = state.device(device.0)?;
    check_type(kind)?;
    out.put(all_of(&state, device)?)
}

/// `cuCtxGetDevResource`: for an ordinary context, all multiprocessors.
pub extern "C" fn get_context_resource(context: Handle, out: Out<Resource>, kind: u32) -> Answer {
    let state = state()?;
    let found = state.bindable(context)?;
    check_type(kind)?;
    out.put(all_of(&state, found.device)?)
}

/// `cuGreenCtxGetDevResource`: the resource that it was created with.
pub extern "C" fn get_resource(green: Handle, out: Out<Resource>, kind: u32) -> Answer {
    let state = state()?;
    let found = state.greens.get(green)?;
    check_type(kind)?;
    out.put(found.resource)
}

/// `cuDevSmResourceSplitByCount`: equal groups, and the remainder.
pub extern "C" fn split(
    results: Out<Resource>,
    count: Out<u32>,
    input: In<Resource>,
    remainder: Out<Resource>,
    flags: u32,
    least: u32,
) -> Answer {
    drop(state()?);
    require(flags <= 3)?;
    let mut input = input.get()?;
    let device = input.device()?;
    if flags & IGNORE_COSCHEDULING != 0 {
        input.multiprocessors.least = 2;
        input.multiprocessors.step = 2;
    }
    let (possible, group) = input.groups(least);
    if results.is_null() {
        return count.put(possible);
    }
    let made = possible.min(count.get()?);
    results.put_all(&vec![Resource::new(device, group); made as usize])?;
    count.put(made)?;
    let left = input.multiprocessors.count - made * group.count;
    remainder.put_if_asked(match left {
        0 => Resource::nothing(),
        count => Resource::new(device, Multiprocessors { count, ..group }),
    });
    Ok(())
}

/// `cuDevResourceGenerateDesc`.
pub extern "C" fn describe(out: Out<Handle>, list: In<Resource>, count: u32) -> Answer {
    require(!out.is_null())?;
    let resources = list.list(count as usize)?;
    out.put(state()?.greens.describe(&resources)?)
}

/// `cuGreenCtxCreate`.
pub extern "C" fn create(
    out: Out<Handle>,
    descriptor: Handle,
    device: CuDevice,
    flags: u32,
) -> Answer {
    require(!out.is_null() && flags == DEFAULT_STREAM)?;
    let mut state = state()?;
    let device = state.device(device.0)?;
    out.put(state.create_green(descriptor, device)?)
}

/// `cuGreenCtxDestroy`.
pub extern "C" fn destroy(green: Handle) -> Answer {
    let ending = state()?.destroy_green(green)?;
    ending.run();
    Ok(())
}

/// The primary context of a green context.
fn primary_of(green: Handle) -> Answer<Handle> {
    let state = state()?;
    let device = state.greens.get(green)?.device;
    Ok(state.contexts.primary_handle(device))
}

/// `cuCtxFromGreenCtx`: the primary context.
pub extern "C" fn to_context(out: Out<Handle>, green: Handle) -> Answer {
    require(!out.is_null())?;
    out.put(primary_of(green)?)
}

/// `cuGreenCtxGetId`.
pub extern "C" fn get_id(green: Handle, out: Out<u64>) -> Answer {
    out.put(state()?.greens.get(green)?.id)
}

/// Runs `inside` with another context current.
fn within(context: Handle, inside: impl FnOnce() -> Answer) -> Answer {
    state()?.bindable(context)?;
    push(context);
    let result = inside();
    pop();
    result
}

/// `cuGreenCtxStreamCreate`: a stream of the primary context.
pub extern "C" fn create_stream(
    out: Out<Handle>,
    green: Handle,
    flags: u32,
    priority: i32,
) -> Answer {
    require(!out.is_null() && flags == NON_BLOCKING)?;
    let primary = primary_of(green)?;
    within(primary, || {
        stream::create_with_priority(out, flags, priority)
    })?;
    state()?.greens.add_stream(out.get()?, green);
    Ok(())
}

/// `cuStreamGetGreenCtx`: null for a stream of an ordinary context.
pub extern "C" fn of_stream(stream: Handle, out: Out<Handle>) -> Answer {
    stream::needs_stream(stream)?;
    out.put(state()?.greens.of_stream(stream).unwrap_or(0))
}

/// `cuGreenCtxRecordEvent`.
pub extern "C" fn record(green: Handle, recorded: Handle) -> Answer {
    within(primary_of(green)?, || event::record(recorded, 0))
}

/// `cuGreenCtxWaitEvent`.
pub extern "C" fn wait(green: Handle, awaited: Handle) -> Answer {
    within(primary_of(green)?, || stream::wait_event(0, awaited, 0))
}

/// `cuCtxRecordEvent`.
pub extern "C" fn record_in_context(context: Handle, recorded: Handle) -> Answer {
    within(context, || event::record(recorded, 0))
}

/// `cuCtxWaitEvent`.
pub extern "C" fn wait_in_context(context: Handle, awaited: Handle) -> Answer {
    within(context, || stream::wait_event(0, awaited, 0))
}

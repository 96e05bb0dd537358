//! Contexts and primary contexts.

use crate::ffi::{Answer, CuError, Handle, Out, require};
use crate::model::context::{pop, pop_if_top, push, top};
use crate::model::state::state;
use gpumem_cuda_abi::CuDevice;

/// `cuDevicePrimaryCtxRetain`.
pub extern "C" fn primary_retain(context: Out<Handle>, device: CuDevice) -> Answer {
    require(!context.is_null())?;
    let mut state = state()?;
    let device = state.device(device.0)?;
    context.put(state.retain_primary(device)?)
}

/// `cuDevicePrimaryCtxRelease`.
pub extern "C" fn primary_release(device: CuDevice) -> Answer {
    let ending = {
        let mut state = state()?;
        let device = state.device(device.0)?;
        state.release_primary(device)?
    };
    ending.run();
    Ok(())
}

/// `cuDevicePrimaryCtxReset`.
pub extern "C" fn primary_reset(device: CuDevice) -> Answer {
    let ending = {
        let mut state = state()?;
        let device = state.device(device.0)?;
        state.reset_primary(device)
    };
    ending.run();
    Ok(())
}

/// `cuDevicePrimaryCtxSetFlags`.
pub extern "C" fn primary_set_flags(device: CuDevice, flags: u32) -> Answer {
    let mut state = state()?;
    let device = state.device(device.0)?;
    state.contexts.set_primary_flags(device, flags);
    Ok(())
}

/// `cuDevicePrimaryCtxGetState`.
pub extern "C" fn primary_get_state(device: CuDevice, flags: Out<u32>, active: Out<i32>) -> Answer {
    let state = state()?;
    let device = state.device(device.0)?;
    let (set, live) = state.contexts.primary_state(device);
    flags.put(set)?;
    active.put(i32::from(live))
}

/// `cuCtxCreate`, `cuCtxCreate_v2`.
pub extern "C" fn create(context: Out<Handle>, flags: u32, device: CuDevice) -> Answer {
    create_current(context, flags, device)
}

/// `cuCtxCreate_v3`: with an execution affinity, which has no effect here.
pub extern "C" fn create_v3(
    context: Out<Handle>,
    _affinity: usize,
    _affinities: i32,
    flags: u32,
    device: CuDevice,
) -> Answer {
    create_current(context, flags, device)
}

/// `cuCtxCreate_v4`: with a structure of further parameters, which have no effect here.
pub extern "C" fn create_v4(
    context: Out<Handle>,
    _parameters: usize,
    flags: u32,
    device: CuDevice,
) -> Answer {
    create_current(context, flags, device)
}

fn create_current(context: Out<Handle>, flags: u32, device: CuDevice) -> Answer {
    require(!context.is_null())?;
    let mut state = state()?;
    let device = state.device(device.0)?;
    let handle = state.create_context(device, flags)?;
    push(handle);
    context.put(handle)
}

/// `cuCtxDestroy`.
pub extern "C" fn destroy(context: Handle) -> Answer {
    require(context != 0)?;
    let ending = state()?.destroy_context(context)?;
    pop_if_top(context);
    ending.run();
    Ok(())
}

/// `cuCtxAttach`: adds a reference to the current context.
pub extern "C" fn attach(context: Out<Handle>, flags: u32) -> Answer {
    require(flags == 0)?;
    require(!context.is_null())?;
    let mut state = state()?;
    let current = state.current()?;
    state.contexts.get_mut(current.context)?.attached += 1;
    context.put(current.context)
}

/// `cuCtxDetach`: drops a reference to the current context.
pub extern "C" fn detach(context: Handle) -> Answer {
    require(context != 0)?;
    if top() != Some(context) {
        return Err(CuError::INVALID_CONTEXT);
    }
    let (ending, gone) = {
        let mut state = state()?;
        let ending = state.detach_context(context)?;
        (ending, state.contexts.get(context).is_err())
    };
    if gone {
        pop_if_top(context);
    }
    ending.run();
    Ok(())
}

/// `cuCtxPushCurrent`.
pub extern "C" fn push_current(context: Handle) -> Answer {
    if context == 0 {
        return Err(CuError::INVALID_CONTEXT);
    }
    state()?.bindable(context)?;
    push(context);
    Ok(())
}

/// `cuCtxPopCurrent`.
pub extern "C" fn pop_current(context: Out<Handle>) -> Answer {
    drop(state()?);
    let popped = pop().ok_or(CuError::INVALID_CONTEXT)?;
    context.put_if_asked(popped);
    Ok(())
}

/// `cuCtxSetCurrent`: replaces the top of the stack; null removes it.
pub extern "C" fn set_current(context: Handle) -> Answer {
    let state = state()?;
    if context != 0 {
        state.bindable(context)?;
    }
    pop();
    if context != 0 {
        push(context);
    }
    Ok(())
}

/// `cuCtxGetCurrent`: null without a context.
pub extern "C" fn get_current(context: Out<Handle>) -> Answer {
    drop(state()?);
    context.put(top().unwrap_or(0))
}

/// `cuCtxGetDevice`.
pub extern "C" fn get_device(device: Out<i32>) -> Answer {
    get_device_v2(device, 0)
}

/// `cuCtxGetDevice_v2`: for any context; null means the current one.
pub extern "C" fn get_device_v2(device: Out<i32>, context: Handle) -> Answer {
    let state = state()?;
    let context = match context {
        0 => top().ok_or(CuError::INVALID_CONTEXT)?,
        context => context,
    };
    device.put(state.bindable(context)?.device as i32)
}

/// `cuCtxGetFlags`.
pub extern "C" fn get_flags(flags: Out<u32>) -> Answer {
    let mut state = state()?;
    let current = state.current()?;
    flags.put(state.contexts.get(current.context)?.flags)
}

/// `cuCtxSetFlags`.
pub extern "C" fn set_flags(flags: u32) -> Answer {
    let mut state = state()?;
    let current = state.current()?;
    state.contexts.get_mut(current.context)?.flags = flags;
    Ok(())
}

/// `cuCtxGetId`.
pub extern "C" fn get_id(context: Handle, id: Out<u64>) -> Answer {
    let mut state = state()?;
    let found = state.context(context)?;
    id.put(state.contexts.get(found.context)?.id)
}

/// `cuCtxGetApiVersion`.
pub extern "C" fn get_api_version(context: Handle, version: Out<u32>) -> Answer {
    state()?.context(context)?;
    version.put(3020)
}

/// `cuCtxSynchronize`: nothing is ever running, but pools shrink as they do after real work.
pub extern "C" fn synchronize() -> Answer {
    synchronize_v2(0)
}

/// `cuCtxSynchronize_v2`: for any context.
pub extern "C" fn synchronize_v2(context: Handle) -> Answer {
    let mut state = state()?;
    let current = state.context(context)?;
    state.context_call(current.context)?;
    state.synchronised(current.device);
    Ok(())
}

/// `cuCtxSetLimit`.
pub extern "C" fn set_limit(limit: u32, value: usize) -> Answer {
    let mut state = state()?;
    let current = state.current()?;
    state.set_limit(current, limit, value)
}

/// `cuCtxGetLimit`.
pub extern "C" fn get_limit(value: Out<usize>, limit: u32) -> Answer {
    let mut state = state()?;
    let current = state.current()?;
    value.put(state.limit(current, limit)?)
}

/// `cuCtxGetCacheConfig`.
pub extern "C" fn get_cache_config(config: Out<u32>) -> Answer {
    let mut state = state()?;
    let current = state.current()?;
    config.put(state.contexts.get(current.context)?.cache_config)
}

/// `cuCtxSetCacheConfig`.
pub extern "C" fn set_cache_config(config: u32) -> Answer {
    let mut state = state()?;
    let current = state.current()?;
    state.contexts.get_mut(current.context)?.cache_config = config;
    Ok(())
}

/// `cuCtxGetSharedMemConfig`.
pub extern "C" fn get_shared_mem_config(config: Out<u32>) -> Answer {
    let mut state = state()?;
    let current = state.current()?;
    config.put(state.contexts.get(current.context)?.shared_config)
}

/// `cuCtxSetSharedMemConfig`.
pub extern "C" fn set_shared_mem_config(config: u32) -> Answer {
    let mut state = state()?;
    let current = state.current()?;
    state.contexts.get_mut(current.context)?.shared_config = config;
    Ok(())
}

/// `cuCtxGetStreamPriorityRange`.
pub extern "C" fn get_stream_priority_range(least: Out<i32>, greatest: Out<i32>) -> Answer {
    state()?.bound()?;
    least.put_if_asked(0);
    greatest.put_if_asked(super::stream::GREATEST_PRIORITY);
    Ok(())
}

/// `cuCtxEnablePeerAccess`.
pub extern "C" fn enable_peer_access(peer: Handle, flags: u32) -> Answer {
    require(flags == 0)?;
    let mut state = state()?;
    let current = state.current()?;
    let other = state.context(peer)?;
    if peer == 0 || other.device == current.device {
        return Err(CuError::INVALID_DEVICE);
    }
    let peers = &mut state.contexts.get_mut(current.context)?.peers;
    if !peers.insert(peer) {
        return Err(CuError::PEER_ACCESS_ALREADY_ENABLED);
    }
    Ok(())
}

/// `cuCtxDisablePeerAccess`.
pub extern "C" fn disable_peer_access(peer: Handle) -> Answer {
    let mut state = state()?;
    let current = state.current()?;
    let peers = &mut state.contexts.get_mut(current.context)?.peers;
    if !peers.remove(&peer) {
        return Err(CuError::PEER_ACCESS_NOT_ENABLED);
    }
    Ok(())
}

/// Calls without effect that need a context: `cuCtxResetPersistingL2Cache`, `cuProfilerStart`,
/// `cuProfilerStop`.
pub extern "C" fn needs_context() -> Answer {
    state()?.current().map(drop)
}

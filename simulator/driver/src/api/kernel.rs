//! Kernels: attributes, and launches, which compute nothing.

use super::on_stream::on_stream;
use crate::ffi::{Answer, CuError, Handle, In, Out, require};
use crate::model::State;
use crate::model::context::Current;
use crate::model::graph::Work;
use crate::model::module::Function;
use crate::model::state::{machine, state};
use crate::model::stream::On;
use gpumem_cuda_abi::CuKernelNodeParams;
use std::ffi::c_char;

fn with_function<T>(function: Handle, ask: impl FnOnce(&mut Function) -> T) -> Answer<T> {
    let mut state = state()?;
    let found = state.modules.functions.get_mut(function);
    Ok(ask(found.ok_or(CuError::INVALID_HANDLE)?))
}

/// Ensures that a kernel's module is loaded in the current context.
fn need_function(function: Handle) -> Answer {
    let mut state = state()?;
    let found = state.modules.functions.get(function);
    found.ok_or(CuError::INVALID_HANDLE)?;
    let current = state.current()?;
    state.need_function(function, current)
}

/// `cuKernelGetFunction`: one handle is used for both. Loads its library in the current context.
pub extern "C" fn get_function(out: Out<Handle>, kernel: Handle) -> Answer {
    require(!out.is_null())?;
    need_function(kernel)?;
    out.put(kernel)
}

/// `cuFuncLoad`.
pub extern "C" fn load(function: Handle) -> Answer {
    need_function(function)
}

/// `cuFuncGetModule`, `cuKernelGetLibrary`.
pub extern "C" fn get_module(out: Out<Handle>, function: Handle) -> Answer {
    out.put(with_function(function, |f| f.module)?)
}

/// `cuFuncGetName`, `cuKernelGetName`.
pub extern "C" fn get_name(out: Out<*const c_char>, function: Handle) -> Answer {
    out.put(with_function(function, |f| f.name.as_ptr())?)
}

/// `cuFuncIsLoaded`: whether its module is loaded in the current context.
pub extern "C" fn is_loaded(out: Out<u32>, function: Handle) -> Answer {
    let state = state()?;
    let found = state.modules.functions.get(function);
    let module = found.ok_or(CuError::INVALID_HANDLE)?.module;
    let context = state.bound()?.context;
    out.put(u32::from(state.is_loaded(module, context)))
}

/// Calls that only check that the function is live: `cuFuncSetCacheConfig`,
/// `cuFuncSetSharedMemConfig`, `cuKernelSetCacheConfig`, `cuFuncSetBlockShape` and the like.
pub extern "C" fn needs_function(function: Handle) -> Answer {
    with_function(function, |_| ())
}

/// `CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES`.
const LOCAL_SIZE_BYTES: u32 = 3;

/// The default value of a kernel's attribute.
fn default_attribute(attribute: u32) -> Answer<i32> {
    let capability = machine().visible_device(0).map(|d| d.compute_capability);
    let (major, minor) = capability.unwrap_or((9, 0));
    match attribute {
        0 => Ok(1024),
        4 => Ok(32),
        5 | 6 => Ok((major * 10 + minor) as i32),
        8 => Ok(super::device::shared_memory_opt_in(major, minor)),
        9 => Ok(-1),
        1..=3 | 7 | 10..=15 => Ok(0),
        _ => Err(CuError::INVALID_VALUE),
    }
}

/// `cuFuncGetAttribute`, `cuKernelGetAttribute`.
pub extern "C" fn get_attribute(value: Out<i32>, attribute: u32, function: Handle) -> Answer {
    let set = with_function(function, |f| f.attributes.get(&attribute).copied())?;
    match (set, attribute) {
        (Some(set), _) => value.put(set),
        (None, LOCAL_SIZE_BYTES) => value.put(with_function(function, |f| f.local_bytes)? as i32),
        (None, _) => value.put(default_attribute(attribute)?),
    }
}

/// `cuFuncSetAttribute`.
pub extern "C" fn set_attribute(function: Handle, attribute: u32, value: i32) -> Answer {
    default_attribute(attribute)?;
    with_function(function, |f| f.attributes.insert(attribute, value)).map(drop)
}

/// `cuKernelSetAttribute`: the same, with another order of parameters.
pub extern "C" fn kernel_set_attribute(attribute: u32, value: i32, kernel: Handle) -> Answer {
    set_attribute(kernel, attribute, value)
}

/// `cuFuncGetParamCount`, `cuKernelGetParamCount`: 0, because code is not read.
pub extern "C" fn get_parameter_count(function: Handle, count: Out<usize>) -> Answer {
    with_function(function, |_| ())?;
    count.put(0)
}

/// `cuFuncGetParamInfo`, `cuKernelGetParamInfo`: no index is valid, because code is not read.
pub extern "C" fn get_parameter(function: Handle) -> Answer {
    with_function(function, |_| ())?;
    Err(CuError::INVALID_VALUE)
}

/// Checks a launch, for now or later.
pub fn check(kernel: &CuKernelNodeParams) -> Answer {
    let extents = kernel.grid.iter().chain(&kernel.block);
    require(extents.into_iter().all(|extent| *extent > 0))?;
    let threads: u64 = kernel
        .block
        .iter()
        .map(|extent| u64::from(*extent))
        .product();
    require(threads <= 1024)?;
    with_function(kernel.function, |_| ())
}

/// Launches a kernel in a context.
pub fn run(state: &mut State, kernel: &CuKernelNodeParams, at: Current) -> Answer {
    state.need_function(kernel.function, at)?;
    let function = state.modules.functions.get(kernel.function);
    let stack = function.map_or(0, |function| function.local_bytes);
    state.need_stack(at, stack)?;
    state.touch_all(at);
    state.launches += 1;
    Ok(())
}

fn launch(on: On, kernel: CuKernelNodeParams) -> Answer {
    check(&kernel)?;
    let mut state = state()?;
    let at = state.stream_at(on)?;
    let kernel = CuKernelNodeParams {
        context: at.context,
        ..kernel
    };
    if state.captured_as(on, Work::Kernel(kernel))? {
        return Ok(());
    }
    run(&mut state, &kernel, at)
}

/// A launch's arguments are only valid during the call, and code is never read, so they are not
/// kept.
fn of(function: Handle, grid: [u32; 3], block: [u32; 3], shared_bytes: u32) -> CuKernelNodeParams {
    CuKernelNodeParams {
        function,
        grid,
        block,
        shared_bytes,
        arguments: 0,
        extra: 0,
        kernel: 0,
        context: 0,
    }
}

#[allow(clippy::too_many_arguments)]
fn launch_on(
    on: On,
    function: Handle,
    grid_x: u32,
    grid_y: u32,
    grid_z: u32,
    block_x: u32,
    block_y: u32,
    block_z: u32,
    shared_bytes: u32,
) -> Answer {
    let grid = [grid_x, grid_y, grid_z];
    let block = [block_x, block_y, block_z];
    launch(on, of(function, grid, block, shared_bytes))
}

on_stream! {
    "`cuLaunchKernel`, `cuLaunchCooperativeKernel`." launch_kernel launch_kernel_own
        [function: Handle, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32,
         block_z: u32, shared_bytes: u32] [] = launch_on;
}

/// `CUlaunchConfig`: 56 bytes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct LaunchConfig {
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    stream: Handle,
    attributes: Handle,
    attribute_count: u32,
}

fn launch_with(on: fn(Handle) -> On, config: In<LaunchConfig>, function: Handle) -> Answer {
    let config = config.get()?;
    let kernel = of(function, config.grid, config.block, config.shared_bytes);
    launch(on(config.stream), kernel)
}

/// `cuLaunchKernelEx`.
pub extern "C" fn launch_kernel_ex(config: In<LaunchConfig>, function: Handle) -> Answer {
    launch_with(On::legacy, config, function)
}

/// `cuLaunchKernelEx_ptsz`.
pub extern "C" fn launch_kernel_ex_own(config: In<LaunchConfig>, function: Handle) -> Answer {
    launch_with(On::own, config, function)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_launch_configuration_has_cudas_size() {
        assert_eq!(size_of::<LaunchConfig>(), 56);
    }
}

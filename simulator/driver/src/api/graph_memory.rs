//! Memory nodes, and the memory that a device keeps for graphs.

use crate::ffi::{Answer, CuError, Handle, In, Out, require};
use crate::model::State;
use crate::model::graph::Work;
use crate::model::state::state;
use gpumem_cuda_abi::{
    CuDevice, CuDevicePtr, CuMemAllocNodeParams, CuMemLocation, CuMemLocationType, CuMemPoolProps,
};

/// Makes an allocation node; writes its address into the parameters.
pub fn allocate(
    state: &mut State,
    graph: Handle,
    after: &[Handle],
    parameters: &mut CuMemAllocNodeParams,
) -> Answer<usize> {
    let location = parameters.pool_props.location;
    require(parameters.pool_props.alloc_type == 1 && parameters.pool_props.handle_types == 0)?;
    if location.kind != CuMemLocationType::DEVICE {
        return Err(CuError::NOT_SUPPORTED);
    }
    let device = state.device(location.id)?;
    let (node, base) = state.add_allocation(graph, after, device, parameters.bytesize as u64)?;
    parameters.dptr = CuDevicePtr(base);
    Ok(node)
}

/// The parameters of an allocation node.
pub fn parameters_of(state: &State, address: u64) -> Answer<CuMemAllocNodeParams> {
    let found = state.graphs.memory.addresses.get(&address);
    let found = found.ok_or(CuError::INVALID_VALUE)?;
    Ok(CuMemAllocNodeParams {
        pool_props: CuMemPoolProps {
            alloc_type: 1,
            handle_types: 0,
            location: CuMemLocation {
                kind: CuMemLocationType::DEVICE,
                id: found.device as i32,
            },
            win32_security_attributes: std::ptr::null_mut(),
            max_size: 0,
            usage: 0,
            reserved: [0; 54],
        },
        access_descs: std::ptr::null(),
        access_desc_count: 0,
        bytesize: found.bytes as usize,
        dptr: CuDevicePtr(address),
    })
}

/// `cuGraphAddMemAllocNode`.
pub extern "C" fn add_allocation(
    out: Out<Handle>,
    graph: Handle,
    after: In<Handle>,
    count: usize,
    parameters: Out<CuMemAllocNodeParams>,
) -> Answer {
    require(!out.is_null())?;
    let mut wanted = parameters.get()?;
    let after = after.list(count)?;
    let node = allocate(&mut *state()?, graph, &after, &mut wanted)?;
    parameters.put(wanted)?;
    out.put(node)
}

/// `cuGraphMemAllocNodeGetParams`.
pub extern "C" fn get_allocation(node: Handle, out: Out<CuMemAllocNodeParams>) -> Answer {
    let state = state()?;
    match state.graphs.node(node)?.work {
        Work::Allocate(address) => out.put(parameters_of(&state, address)?),
        _ => Err(CuError::INVALID_VALUE),
    }
}

/// `cuGraphAddMemFreeNode`.
pub extern "C" fn add_free(
    out: Out<Handle>,
    graph: Handle,
    after: In<Handle>,
    count: usize,
    pointer: CuDevicePtr,
) -> Answer {
    require(!out.is_null())?;
    let after = after.list(count)?;
    out.put(state()?.add_free(graph, &after, pointer.0)?)
}

/// `cuGraphMemFreeNodeGetParams`.
pub extern "C" fn get_free(node: Handle, pointer: Out<CuDevicePtr>) -> Answer {
    match state()?.graphs.node(node)?.work {
        Work::Free(address) => pointer.put(CuDevicePtr(address)),
        _ => Err(CuError::INVALID_VALUE),
    }
}

/// `cuDeviceGetGraphMemAttribute`.
pub extern "C" fn get_attribute(device: CuDevice, attribute: u32, value: Out<u64>) -> Answer {
    let state = state()?;
    let kept = &state.graphs.memory.devices[state.device(device.0)?];
    value.put(match attribute {
        0 => kept.used.current,
        1 => kept.used.high,
        2 => kept.reserved.current,
        3 => kept.reserved.high,
        _ => return Err(CuError::INVALID_VALUE),
    })
}

/// `cuDeviceSetGraphMemAttribute`: a peak can only be set to 0, which resets it to the current
/// value.
pub extern "C" fn set_attribute(device: CuDevice, attribute: u32, value: In<u64>) -> Answer {
    require(value.get()? == 0)?;
    let mut state = state()?;
    let device = state.device(device.0)?;
    let kept = &mut state.graphs.memory.devices[device];
    match attribute {
        1 => kept.used.reset(),
        3 => kept.reserved.reset(),
        _ => return Err(CuError::INVALID_VALUE),
    }
    Ok(())
}

/// `cuDeviceGraphMemTrim`.
pub extern "C" fn trim(device: CuDevice) -> Answer {
    let mut state = state()?;
    let device = state.device(device.0)?;
    state.trim_graphs_of(device);
    Ok(())
}

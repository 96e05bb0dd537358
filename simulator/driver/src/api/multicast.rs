//! Multicast objects.

use crate::ffi::{Answer, CuError, In, Out, require};
use crate::model::multicast::{Properties, Source};
use crate::model::state::state;
use crate::model::vmm::GRANULARITY;
use gpumem_cuda_abi::{CuDevice, CuDevicePtr, CuMemHandle};

/// Waits, without the lock, until every device of a multicast object's team has joined. Returns at
/// once for other handles.
pub fn wait_for_team(handle: CuMemHandle) -> Answer {
    let page = state()?.team_of(handle.0);
    if let Some(page) = page {
        page.wait();
    }
    Ok(())
}

/// `cuMulticastCreate`.
pub extern "C" fn create(out: Out<CuMemHandle>, properties: In<Properties>) -> Answer {
    require(!out.is_null())?;
    let properties = properties.get()?;
    out.put(CuMemHandle(state()?.create_multicast(properties)?))
}

/// `cuMulticastAddDevice`.
pub extern "C" fn add_device(handle: CuMemHandle, device: CuDevice) -> Answer {
    let mut state = state()?;
    let device = state.device(device.0)?;
    state.add_to_multicast(handle.0, device)
}

/// `cuMulticastGetGranularity`: the same as for memory.
pub extern "C" fn get_granularity(
    granularity: Out<usize>,
    properties: In<Properties>,
    option: u32,
) -> Answer {
    state()?.check_multicast()?;
    properties.get()?;
    require(option <= 1)?;
    granularity.put(GRANULARITY as usize)
}

fn bind(
    handle: CuMemHandle,
    device: Option<CuDevice>,
    offset: usize,
    source: Source,
    bytes: usize,
    flags: u64,
) -> Answer {
    require(flags == 0)?;
    let team = state()?.team_of(handle.0);
    team.ok_or(CuError::INVALID_VALUE)?.wait();
    let mut state = state()?;
    let device = match device {
        Some(device) => Some(state.device(device.0)?),
        None => None,
    };
    state.bind_multicast(handle.0, device, offset as u64, source, bytes as u64)
}

/// `cuMulticastBindMem`.
pub extern "C" fn bind_memory(
    handle: CuMemHandle,
    offset: usize,
    memory: CuMemHandle,
    memory_offset: usize,
    bytes: usize,
    flags: u64,
) -> Answer {
    let source = Source::Handle(memory.0, memory_offset as u64);
    bind(handle, None, offset, source, bytes, flags)
}

/// `cuMulticastBindMem_v2`.
pub extern "C" fn bind_memory_v2(
    handle: CuMemHandle,
    device: CuDevice,
    offset: usize,
    memory: CuMemHandle,
    memory_offset: usize,
    bytes: usize,
    flags: u64,
) -> Answer {
    let source = Source::Handle(memory.0, memory_offset as u64);
    bind(handle, Some(device), offset, source, bytes, flags)
}

/// `cuMulticastBindAddr`.
pub extern "C" fn bind_address(
    handle: CuMemHandle,
    offset: usize,
    address: CuDevicePtr,
    bytes: usize,
    flags: u64,
) -> Answer {
    bind(
        handle,
        None,
        offset,
        Source::Address(address.0),
        bytes,
        flags,
    )
}

/// `cuMulticastBindAddr_v2`.
pub extern "C" fn bind_address_v2(
    handle: CuMemHandle,
    device: CuDevice,
    offset: usize,
    address: CuDevicePtr,
    bytes: usize,
    flags: u64,
) -> Answer {
    let source = Source::Address(address.0);
    bind(handle, Some(device), offset, source, bytes, flags)
}

/// `cuMulticastUnbind`.
pub extern "C" fn unbind(
    handle: CuMemHandle,
    device: CuDevice,
    offset: usize,
    bytes: usize,
) -> Answer {
    let mut state = state()?;
    let device = state.device(device.0)?;
    state.unbind_multicast(handle.0, device, offset as u64, bytes as u64)
}

//! Virtual memory management.

use crate::calls;
use crate::ffi::{Answer, CuError, Handle, In, Out, require};
use crate::host::Access;
use crate::model::sharing::{FILE_DESCRIPTOR, check_handle_types};
use crate::model::state::state;
use crate::model::vmm::GRANULARITY;
use gpumem_cuda_abi::{
    CuDevicePtr, CuMemAccessDesc, CuMemAllocationProp, CuMemHandle, CuMemLocation,
    CuMemLocationType,
};
use std::os::fd::IntoRawFd;

/// `cuMemGetAllocationGranularity`: 2 MiB, both minimum and recommended.
pub extern "C" fn get_granularity(
    granularity: Out<usize>,
    properties: In<CuMemAllocationProp>,
    option: u32,
) -> Answer {
    drop(state()?);
    properties.get()?;
    require(option <= 1)?;
    granularity.put(GRANULARITY as usize)
}

/// `cuMemAddressReserve`. The requested address is a hint, used if it is free.
pub extern "C" fn address_reserve(
    out: Out<CuDevicePtr>,
    bytes: usize,
    align: usize,
    hint: CuDevicePtr,
    flags: u64,
) -> Answer {
    calls::ADDRESS_RESERVE.count(|| {
        require(!out.is_null() && flags == 0)?;
        let base = state()?.reserve_addresses(bytes as u64, align as u64, hint.0)?;
        out.put(CuDevicePtr(base))
    })
}

/// `cuMemAddressFree`.
pub extern "C" fn address_free(base: CuDevicePtr, bytes: usize) -> Answer {
    calls::ADDRESS_FREE.count(|| state()?.free_addresses(base.0, bytes as u64))
}

/// `cuMemCreate`.
pub extern "C" fn create(
    out: Out<CuMemHandle>,
    bytes: usize,
    properties: In<CuMemAllocationProp>,
    flags: u64,
) -> Answer {
    calls::CREATE.count(|| {
        require(!out.is_null() && flags == 0)?;
        let properties = properties.get()?;
        let handle = state()?.create_physical(bytes as u64, properties)?;
        out.put(CuMemHandle(handle))
    })
}

/// `cuMemRelease`.
pub extern "C" fn release(handle: CuMemHandle) -> Answer {
    calls::RELEASE.count(|| state()?.release_physical(handle.0))
}

/// `cuMemRetainAllocationHandle`.
pub extern "C" fn retain(out: Out<CuMemHandle>, address: Handle) -> Answer {
    require(!out.is_null())?;
    out.put(CuMemHandle(state()?.retain_physical(address as u64)?))
}

/// `cuMemMap`.
///
/// A multicast object is mapped when its team is complete; until then the call waits.
pub extern "C" fn map(
    base: CuDevicePtr,
    bytes: usize,
    offset: usize,
    handle: CuMemHandle,
    flags: u64,
) -> Answer {
    calls::MAP.count(|| {
        require(flags == 0)?;
        super::multicast::wait_for_team(handle)?;
        state()?.map_physical(base.0, bytes as u64, offset as u64, handle.0)
    })
}

/// `cuMemUnmap`.
pub extern "C" fn unmap(base: CuDevicePtr, bytes: usize) -> Answer {
    calls::UNMAP.count(|| state()?.unmap_physical(base.0, bytes as u64))
}

/// `cuMemSetAccess`. The host's page tables have one access for all devices: the widest one.
pub extern "C" fn set_access(
    base: CuDevicePtr,
    bytes: usize,
    access: In<CuMemAccessDesc>,
    count: usize,
) -> Answer {
    calls::SET_ACCESS.count(|| {
        require(count > 0)?;
        let mut state = state()?;
        let mut widest = 0;
        for access in access.list(count)? {
            if access.location.kind == CuMemLocationType::DEVICE {
                state.device(access.location.id)?;
            }
            widest |= access.flags;
        }
        let access = Access::from_flags(widest).ok_or(CuError::INVALID_VALUE)?;
        state.set_access(base.0, bytes as u64, access)
    })
}

/// `cuMemGetAccess`.
pub extern "C" fn get_access(
    flags: Out<u64>,
    location: In<CuMemLocation>,
    pointer: CuDevicePtr,
) -> Answer {
    location.get()?;
    let state = state()?;
    state.vmm.mapped_at(pointer.0)?;
    let found = state.memory.holding(pointer.0);
    flags.put(found.map_or(0, |allocation| allocation.access.flags().into()))
}

/// `cuMemGetAllocationPropertiesFromHandle`.
pub extern "C" fn get_properties(out: Out<CuMemAllocationProp>, handle: CuMemHandle) -> Answer {
    out.put(state()?.vmm.get(handle.0)?.properties)
}

/// `cuMemExportToShareableHandle`: as a file descriptor, if the memory was created for that.
pub extern "C" fn export(out: Out<i32>, handle: CuMemHandle, kind: u32, flags: u64) -> Answer {
    require(!out.is_null() && flags == 0)?;
    let state = state()?;
    check_handle_types(kind)?;
    require(kind == FILE_DESCRIPTOR)?;
    let file = match state.export_multicast(handle.0) {
        Some(file) => file?,
        None => state.export_physical(handle.0)?,
    };
    out.put(file.into_raw_fd())
}

/// `cuMemImportFromShareableHandle`: the descriptor is passed as the pointer's value. The caller
/// keeps it.
pub extern "C" fn import(out: Out<CuMemHandle>, descriptor: Handle, kind: u32) -> Answer {
    require(!out.is_null())?;
    let mut state = state()?;
    check_handle_types(kind)?;
    require(kind == FILE_DESCRIPTOR)?;
    let file = i32::try_from(descriptor).map_err(|_| CuError::INVALID_VALUE)?;
    out.put(CuMemHandle(state.import_physical(file)?))
}

//! Virtual memory management.

use crate::ffi::{Handle, In, Out, answer, require};
use crate::host::Access;
use crate::model::state::state;
use crate::model::vmm::GRANULARITY;
use gpumem_cuda_abi::{
    CuDevicePtr, CuMemAccessDesc, CuMemAllocationProp, CuMemHandle, CuMemLocation,
    CuMemLocationType, CuResult,
};
use std::os::fd::{FromRawFd, OwnedFd};

/// `CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR`.
const FILE_DESCRIPTOR: u32 = 1;

/// `cuMemGetAllocationGranularity`: 2 MiB, smallest and recommended alike.
pub extern "C" fn get_granularity(
    granularity: Out<usize>,
    properties: In<CuMemAllocationProp>,
    option: u32,
) -> CuResult {
    answer(|| {
        drop(state()?);
        properties.get()?;
        require(option <= 1)?;
        granularity.put(GRANULARITY as usize)
    })
}

/// `cuMemAddressReserve`. The address asked for is a hint and not followed.
pub extern "C" fn address_reserve(
    out: Out<CuDevicePtr>,
    bytes: usize,
    align: usize,
    _hint: CuDevicePtr,
    flags: u64,
) -> CuResult {
    answer(|| {
        require(!out.is_null() && flags == 0)?;
        let base = state()?.reserve_addresses(bytes as u64, align as u64)?;
        out.put(CuDevicePtr(base))
    })
}

/// `cuMemAddressFree`.
pub extern "C" fn address_free(base: CuDevicePtr, bytes: usize) -> CuResult {
    answer(|| state()?.free_addresses(base.0, bytes as u64))
}

/// `cuMemCreate`.
pub extern "C" fn create(
    out: Out<CuMemHandle>,
    bytes: usize,
    properties: In<CuMemAllocationProp>,
    flags: u64,
) -> CuResult {
    answer(|| {
        require(!out.is_null() && flags == 0)?;
        let properties = properties.get()?;
        let handle = state()?.create_physical(bytes as u64, properties)?;
        out.put(CuMemHandle(handle))
    })
}

/// `cuMemRelease`.
pub extern "C" fn release(handle: CuMemHandle) -> CuResult {
    answer(|| state()?.release_physical(handle.0))
}

/// `cuMemRetainAllocationHandle`.
pub extern "C" fn retain(out: Out<CuMemHandle>, address: Handle) -> CuResult {
    answer(|| {
        require(!out.is_null())?;
        out.put(CuMemHandle(state()?.retain_physical(address as u64)?))
    })
}

/// `cuMemMap`.
pub extern "C" fn map(
    base: CuDevicePtr,
    bytes: usize,
    offset: usize,
    handle: CuMemHandle,
    flags: u64,
) -> CuResult {
    answer(|| {
        require(flags == 0)?;
        state()?.map_physical(base.0, bytes as u64, offset as u64, handle.0)
    })
}

/// `cuMemUnmap`.
pub extern "C" fn unmap(base: CuDevicePtr, bytes: usize) -> CuResult {
    answer(|| state()?.unmap_physical(base.0, bytes as u64))
}

/// `cuMemSetAccess`. The host's page tables know one access for all devices: the widest given.
pub extern "C" fn set_access(
    base: CuDevicePtr,
    bytes: usize,
    access: In<CuMemAccessDesc>,
    count: usize,
) -> CuResult {
    answer(|| {
        require(count > 0)?;
        let mut state = state()?;
        let mut widest = 0;
        for access in access.list(count)? {
            if access.location.kind == CuMemLocationType::DEVICE {
                state.device(access.location.id)?;
            }
            widest |= access.flags;
        }
        let access = Access::from_flags(widest).ok_or(CuResult::INVALID_VALUE)?;
        state.set_access(base.0, bytes as u64, access)
    })
}

/// `cuMemGetAccess`.
pub extern "C" fn get_access(
    flags: Out<u64>,
    location: In<CuMemLocation>,
    pointer: CuDevicePtr,
) -> CuResult {
    answer(|| {
        location.get()?;
        let state = state()?;
        state.vmm.mapped_at(pointer.0)?;
        let found = state.memory.holding(pointer.0);
        flags.put(found.map_or(0, |allocation| allocation.access.flags().into()))
    })
}

/// `cuMemGetAllocationPropertiesFromHandle`.
pub extern "C" fn get_properties(out: Out<CuMemAllocationProp>, handle: CuMemHandle) -> CuResult {
    answer(|| out.put(state()?.vmm.get(handle.0)?.properties))
}

/// `cuMemExportToShareableHandle`: as a file descriptor, if the memory was made for that.
pub extern "C" fn export(out: Out<i32>, handle: CuMemHandle, kind: u32, flags: u64) -> CuResult {
    answer(|| {
        require(!out.is_null() && flags == 0)?;
        let state = state()?;
        let properties = state.vmm.get(handle.0)?.properties;
        if kind != FILE_DESCRIPTOR {
            return Err(CuResult::NOT_SUPPORTED);
        }
        require(properties.requested_handle_types & FILE_DESCRIPTOR != 0)?;
        let file = state.physical_file(handle.0)?;
        // SAFETY: an open descriptor, kept open by the handle; the copy becomes the caller's.
        let copy = unsafe { libc::fcntl(file, libc::F_DUPFD_CLOEXEC, 0) };
        if copy < 0 {
            return Err(CuResult::OUT_OF_MEMORY);
        }
        out.put(copy)
    })
}

/// `cuMemImportFromShareableHandle`: our own memory comes back under its own handle, with one more
/// reference; another process's becomes an alias that the books here do not count.
pub extern "C" fn import(out: Out<CuMemHandle>, descriptor: Handle, kind: u32) -> CuResult {
    answer(|| {
        require(!out.is_null())?;
        if kind != FILE_DESCRIPTOR {
            return Err(CuResult::NOT_SUPPORTED);
        }
        let file = i32::try_from(descriptor).map_err(|_| CuResult::INVALID_VALUE)?;
        let identity = identity(file).ok_or(CuResult::INVALID_VALUE)?;
        let mut state = state()?;
        let ours = state.physical_with(|ours| {
            self::identity(ours).is_some_and(|ours| ours.number == identity.number)
        });
        let handle = match ours {
            Some(handle) => {
                state.retain_handle(handle)?;
                handle
            }
            None => {
                // SAFETY: an open descriptor, as fstat has just shown; the caller keeps its own.
                let copy = unsafe { libc::fcntl(file, libc::F_DUPFD_CLOEXEC, 0) };
                require(copy >= 0 && identity.bytes > 0)?;
                // SAFETY: the copy is new and nobody else's.
                let file = unsafe { OwnedFd::from_raw_fd(copy) };
                let properties = imported_properties();
                state.import_physical(file, identity.bytes, properties)?
            }
        };
        out.put(CuMemHandle(handle))
    })
}

/// A file by device and inode, and its size.
struct Identity {
    number: (u64, u64),
    bytes: u64,
}

fn identity(file: i32) -> Option<Identity> {
    // SAFETY: all-zero is a valid stat structure, and fstat fills it or fails.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: a descriptor number (a wrong one is an error) and a structure of ours.
    if unsafe { libc::fstat(file, &mut stat) } != 0 {
        return None;
    }
    Some(Identity {
        number: (stat.st_dev, stat.st_ino),
        bytes: u64::try_from(stat.st_size).ok()?,
    })
}

/// Properties of imported memory: the file says nothing, so device 0.
fn imported_properties() -> CuMemAllocationProp {
    CuMemAllocationProp {
        kind: 1,
        requested_handle_types: FILE_DESCRIPTOR,
        location: CuMemLocation {
            kind: CuMemLocationType::DEVICE,
            id: 0,
        },
        win32_handle_meta_data: std::ptr::null_mut(),
        alloc_flags: gpumem_cuda_abi::CuMemAllocFlags {
            compression_type: 0,
            gpu_direct_rdma_capable: 0,
            usage: 0,
            reserved: [0; 4],
        },
    }
}

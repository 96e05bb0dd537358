//! Queries of pools and graphs.

use core::ffi::{c_int, c_void};

use gpumem_capture::DeviceOrdinal;
use gpumem_cuda_abi::{CuDevice, CuDevicePtr, CuMemLocation, CuMemLocationType, CuMemoryPool};

use super::ask::ask;

/// The pool that the memory at `pointer` came from.
pub(crate) fn pool_holding(pointer: u64) -> Option<CuMemoryPool> {
    const MEMPOOL_HANDLE: u32 = 17;
    let mut pool = CuMemoryPool::NULL;
    ask!(
        c"cuPointerGetAttribute",
        fn(*mut c_void, u32, CuDevicePtr),
        (&raw mut pool).cast(),
        MEMPOOL_HANDLE,
        CuDevicePtr(pointer)
    )?;
    (!pool.is_null()).then_some(pool)
}

/// The pool that a device's stream-ordered memory comes from.
pub(crate) fn pool_of(device: DeviceOrdinal) -> Option<CuMemoryPool> {
    let device = CuDevice(i32::from(device.0));
    let mut pool = CuMemoryPool::NULL;
    ask!(
        c"cuDeviceGetMemPool",
        fn(*mut CuMemoryPool, CuDevice),
        &mut pool,
        device
    )
    .map(|()| pool)
}

/// The type (`CUmemAllocationType`) and location of a pool's memory, if the driver reports them (since 12.8).
pub(crate) fn pool_location(pool: CuMemoryPool) -> Option<(u32, CuMemLocation)> {
    const ALLOCATION_TYPE: u32 = 9;
    const LOCATION_ID: u32 = 11;
    const LOCATION_TYPE: u32 = 12;
    let attribute = |attribute: u32| {
        let mut value: c_int = -1;
        ask!(
            c"cuMemPoolGetAttribute",
            fn(CuMemoryPool, u32, *mut c_void),
            pool,
            attribute,
            (&raw mut value).cast()
        )
        .map(|()| value)
    };
    let location = CuMemLocation {
        kind: CuMemLocationType(attribute(LOCATION_TYPE)? as u32),
        id: attribute(LOCATION_ID)?,
    };
    Some((attribute(ALLOCATION_TYPE)? as u32, location))
}

/// Bytes that a pool holds from its device; `None` if there is no such pool.
pub(crate) fn pool_reserved(pool: CuMemoryPool) -> Option<u64> {
    const RESERVED_MEM_CURRENT: u32 = 5;
    let mut bytes = 0u64;
    ask!(
        c"cuMemPoolGetAttribute",
        fn(CuMemoryPool, u32, *mut c_void),
        pool,
        RESERVED_MEM_CURRENT,
        (&raw mut bytes).cast()
    )
    .map(|()| bytes)
}

/// Bytes that a device holds for its graphs' memory nodes.
pub(crate) fn graph_reserved(device: CuDevice) -> Option<u64> {
    const RESERVED_MEM_CURRENT: u32 = 2;
    let mut bytes = 0u64;
    ask!(
        c"cuDeviceGetGraphMemAttribute",
        fn(CuDevice, u32, *mut c_void),
        device,
        RESERVED_MEM_CURRENT,
        (&raw mut bytes).cast()
    )
    .map(|()| bytes)
}

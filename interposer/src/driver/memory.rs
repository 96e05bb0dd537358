//! Queries of memory, and allocation of physical memory without an address.

use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;

use gpumem_capture::DeviceOrdinal;
use gpumem_cuda_abi::{
    ALLOCATION_PINNED, CuDevice, CuDevicePtr, CuMemAllocationProp, CuMemHandle, CuMemLocationType,
    DeviceRange,
};

use super::ask::{ask, relaxed};
use super::context::{current_device, ordinal};
use crate::card::withheld;

/// The device that holds `pointer`.
pub(crate) fn device_of(pointer: u64) -> DeviceOrdinal {
    const DEVICE_ORDINAL: u32 = 9;
    let mut device: c_int = -1;
    let asked = ask!(
        c"cuPointerGetAttribute",
        fn(*mut c_void, u32, CuDevicePtr),
        (&raw mut device).cast(),
        DEVICE_ORDINAL,
        CuDevicePtr(pointer)
    );
    match asked {
        Some(()) => ordinal(CuDevice(device)),
        None => DeviceOrdinal::NONE,
    }
}

/// The allocation that holds `pointer`.
pub(crate) fn range_of(pointer: CuDevicePtr) -> Option<DeviceRange> {
    let (mut base, mut bytes) = (CuDevicePtr(0), 0usize);
    let asked = ask!(
        c"cuMemGetAddressRange_v2",
        fn(*mut CuDevicePtr, *mut usize, CuDevicePtr),
        &mut base,
        &mut bytes,
        pointer
    );
    let bytes = bytes as u64;
    asked.map(|()| DeviceRange { base, bytes })
}

/// Free and total bytes of the current context's device, as the driver reports them now.
pub(crate) fn memory_info() -> Option<(u64, u64)> {
    let (mut free, mut total) = (0usize, 0usize);
    ask!(
        c"cuMemGetInfo_v2",
        fn(*mut usize, *mut usize),
        &mut free,
        &mut total
    )
    .map(|()| (free as u64, total as u64))
}

/// Free bytes of the current context's device, including those that a limit withholds. The query does not affect
/// stream captures.
pub(crate) fn free_bytes() -> Option<u64> {
    let ask = || relaxed(memory_info).map(|(free, _)| free);
    if !withheld::may_be() {
        return ask();
    }
    let (free, withheld) = withheld::read(current_device(), ask);
    free.map(|free| free + withheld)
}

/// Allocates physical memory of a device, without an address.
pub(crate) fn create_physical(device: DeviceOrdinal, bytes: u64) -> Option<CuMemHandle> {
    // SAFETY: of integers and a pointer that may be null, zeros are a valid value.
    let mut properties = unsafe { MaybeUninit::<CuMemAllocationProp>::zeroed().assume_init() };
    properties.kind = ALLOCATION_PINNED;
    properties.location.kind = CuMemLocationType::DEVICE;
    properties.location.id = i32::from(device.0);
    let mut handle = CuMemHandle(0);
    relaxed(|| {
        ask!(
            c"cuMemCreate",
            fn(*mut CuMemHandle, usize, *const CuMemAllocationProp, u64),
            &mut handle,
            bytes as usize,
            &properties,
            0
        )
    })
    .map(|()| handle)
}

/// Frees such memory.
pub(crate) fn release_physical(handle: CuMemHandle) {
    let _ = relaxed(|| ask!(c"cuMemRelease", fn(CuMemHandle), handle));
}

/// Whether an address is mapped to physical memory that has a handle.
pub(crate) fn is_mapped(address: u64) -> bool {
    let mut handle = CuMemHandle(0);
    let retained = relaxed(|| {
        ask!(
            c"cuMemRetainAllocationHandle",
            fn(*mut CuMemHandle, *mut c_void),
            &mut handle,
            address as *mut c_void
        )
    });
    if retained.is_some() {
        release_physical(handle);
    }
    retained.is_some()
}

/// The device of a physical handle's memory; none for host memory.
pub(crate) fn handle_device(handle: CuMemHandle) -> Option<DeviceOrdinal> {
    let mut properties = MaybeUninit::<CuMemAllocationProp>::zeroed();
    ask!(
        c"cuMemGetAllocationPropertiesFromHandle",
        fn(*mut CuMemAllocationProp, CuMemHandle),
        properties.as_mut_ptr(),
        handle
    )?;
    // SAFETY: zeros are a valid value of the structure, which the driver has filled in.
    let location = unsafe { properties.assume_init() }.location;
    Some(match location.kind {
        CuMemLocationType::DEVICE => ordinal(CuDevice(location.id)),
        _ => DeviceOrdinal::NONE,
    })
}

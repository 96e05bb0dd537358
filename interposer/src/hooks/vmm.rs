//! Virtual memory management: physical handles, counted once however often they are mapped.
//!
//! A handle's bytes are live from `cuMemCreate` until it has neither references nor mappings.

use core::ffi::c_void;

use gpumem_capture::{DeviceOrdinal, EventFlags, EventKind, Level};
use gpumem_cuda_abi::{
    CuDevice, CuDevicePtr, CuMemAllocationProp, CuMemHandle, CuMemLocationType, CuResult,
};

use super::handles;
use super::seen::{self, Asked, Owner};
use crate::driver;
use crate::limit::Takes;
use crate::sideband::{self, Sideband};

/// What a handle takes of a device; one of the host takes nothing.
fn taken_by(properties: Option<&CuMemAllocationProp>, bytes: usize) -> Takes {
    match properties.map(|properties| properties.location) {
        Some(location) if location.kind == CuMemLocationType::DEVICE => {
            Takes::on(driver::ordinal(CuDevice(location.id)), bytes as u64)
        }
        _ => Takes::nothing(),
    }
}

hook! {
    /// Physical memory with no address.
    Driver Required
    fn cuMemCreate(
        handle: *mut CuMemHandle,
        bytes: usize,
        properties: *const CuMemAllocationProp,
        flags: u64,
    ) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    takes {
        // SAFETY: null, or a structure that the driver is about to read.
        taken_by(unsafe { properties.as_ref() }, bytes)
    };
    with call, thread, result, held;
    before {}
    after {
        if !properties.is_null() {
            // SAFETY: checked for null; the driver has just read the same structure.
            let location = unsafe { (*properties).location };
            let on_device = location.kind == CuMemLocationType::DEVICE;
            let device =
                if on_device { driver::ordinal(CuDevice(location.id)) } else { DeviceOrdinal::NONE };
            let asked = Asked {
                level: if on_device { Level::DRIVER } else { Level::HOST },
                bytes: bytes as u64,
                owner: Owner::Named(device),
                flags: EventFlags::VMM_HANDLE,
            };
            seen::asked_for(&call, thread, result.0, asked, || {
                // SAFETY: the call succeeded, so the driver has just written there.
                let made = unsafe { (*handle).0 };
                handles::made(made, asked.level, device, false);
                made
            });
        }
    }
}

hook! {
    /// One reference less.
    Driver Required
    fn cuMemRelease(handle: CuMemHandle) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    with call, thread, result, held;
    before {
        handles::releasing(thread, &call, handle.0)
    }
    after {
        if let (Some(Some(undo)), false) = (held, result.is_success()) {
            undo.apply(thread, &call);
        }
    }
}

hook! {
    /// One reference more, found by an address that is mapped to the handle.
    Driver Required
    fn cuMemRetainAllocationHandle(handle: *mut CuMemHandle, address: *mut c_void) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    with call, thread, result, held;
    before {}
    after {
        if result.is_success() {
            // SAFETY: the call succeeded, so the driver has just written there.
            handles::retained(unsafe { (*handle).0 });
        }
    }
}

hook! {
    /// A handle on memory that another process or API made: an alias, counted nowhere.
    Driver Optional
    fn cuMemImportFromShareableHandle(
        handle: *mut CuMemHandle,
        shared: *mut c_void,
        kind: u32,
    ) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    with call, thread, result, held;
    before {}
    after {
        if result.is_success() {
            // SAFETY: the call succeeded, so the driver has just written there.
            let made = unsafe { (*handle).0 };
            // A multicast object is told by no properties.
            let device = driver::handle_device(CuMemHandle(made))
                .unwrap_or_else(driver::current_device);
            // A driver may answer with a handle that this process already has.
            if !handles::retained(made) {
                handles::made(made, Level::DRIVER, device, true);
                let what = Sideband { ptr: made, device, with_stacks: true, ..Sideband::default() };
                sideband::record(thread, call.api(), EventKind::ALIAS, Level::DRIVER, what);
            }
        }
    }
}

hook! {
    /// Gives a handle an address.
    Driver Required
    fn cuMemMap(
        address: CuDevicePtr,
        bytes: usize,
        offset: usize,
        handle: CuMemHandle,
        flags: u64,
    ) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    with call, thread, result, held;
    before {}
    after {
        if result.is_success() {
            let bytes = bytes as u64;
            let device = handles::mapped_at(address.0, bytes, handle.0);
            let what = Sideband {
                ptr: address.0,
                bytes,
                aux: handle.0,
                device,
                flags: EventFlags::NONE,
                with_stacks: true,
            };
            sideband::record(thread, call.api(), EventKind::MAP, Level::DRIVER, what);
        }
    }
}

hook! {
    /// Takes addresses back; one call may end several mappings.
    Driver Required
    fn cuMemUnmap(address: CuDevicePtr, bytes: usize) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    with call, thread, result, held;
    before {
        handles::unmapping(thread, &call, address.0, address.0.saturating_add(bytes as u64))
    }
    after {
        if let (Some(undo), false) = (held, result.is_success()) {
            undo.apply(thread, &call);
        }
    }
}

//! Virtual memory management: physical handles, counted once regardless of the number of mappings.
//!
//! A handle's bytes are live from `cuMemCreate` until it has neither references nor mappings.

use core::ffi::c_void;

use gpumem_capture::{DeviceOrdinal, EventFlags};
use gpumem_cuda_abi::{CuDevicePtr, CuMemAccessDesc, CuMemAllocationProp, CuMemHandle, CuResult};

use gpumem_tracker::{Alias, Tracker};

use super::blocks::{self, Request, Source};
use super::places;
use crate::limit::Takes;
use crate::{driver, record};

/// The device memory that a handle takes; a handle of host memory takes none.
fn taken_by(properties: Option<&CuMemAllocationProp>, bytes: usize) -> Takes {
    let Some(properties) = properties else {
        return Takes::nothing();
    };
    let place = places::of(properties.kind, properties.location);
    places::taken(Some(place), bytes, driver::current_device)
}

hook! {
    /// Physical memory without an address.
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
            let properties = unsafe { *properties };
            let place = places::of(properties.kind, properties.location);
            let (level, device, kind) = places::recorded_as(place);
            let asked = Request {
                level,
                bytes: bytes as u64,
                source: Source::Named(device.unwrap_or_else(driver::current_device)),
                flags: EventFlags::VMM_HANDLE.with(kind),
            };
            // SAFETY: the call succeeded, so the driver has just written there.
            blocks::requested(&call, thread, result.0, asked, || unsafe { (*handle).0 });
        }
    }
}

hook! {
    /// Removes a reference.
    Driver Required
    fn cuMemRelease(handle: CuMemHandle) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    with call, thread, result, held;
    before {
        let ending = |tracker: &mut Tracker, origin| tracker.handle_releasing(handle.0, origin);
        record::without_stacks(thread, &call, ending).flatten()
    }
    after { blocks::ended(&call, thread, result, held); }
}

hook! {
    /// Adds a reference, by an address that is mapped to the handle.
    Driver Required
    fn cuMemRetainAllocationHandle(handle: *mut CuMemHandle, address: *mut c_void) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    with call, thread, result, held;
    before {}
    after {
        if result.is_success() {
            // SAFETY: the call succeeded, so the driver has just written there.
            let handle = unsafe { (*handle).0 };
            record::without_stacks(thread, &call, |tracker, _| tracker.retained(handle));
        }
    }
}

hook! {
    /// A handle on memory of another process or API: an alias, not counted.
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
            // Multicast objects have no properties to identify them by.
            let device = driver::handle_device(CuMemHandle(made))
                .unwrap_or_else(driver::current_device);
            let alias = Alias { device, ..Alias::default() };
            record::with_stacks(thread, &call, device, |tracker, origin| {
                tracker.handle_opened(made, alias, 0, origin);
            });
        }
    }
}

hook! {
    /// Maps a handle to an address.
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
            record::with_stacks(thread, &call, DeviceOrdinal::NONE, |tracker, origin| {
                tracker.mapped(address.0, bytes as u64, handle.0, origin);
            });
        }
    }
}

hook! {
    /// Gives devices access to mapped memory: only its time is recorded.
    Driver Optional
    fn cuMemSetAccess(
        address: CuDevicePtr,
        bytes: usize,
        access: *const CuMemAccessDesc,
        count: usize,
    ) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    with call, thread, result, held;
    before {}
}

hook! {
    /// Unmaps addresses; one call may end several mappings.
    Driver Required
    fn cuMemUnmap(address: CuDevicePtr, bytes: usize) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    with call, thread, result, held;
    before {
        let (from, to) = (address.0, address.0.saturating_add(bytes as u64));
        record::without_stacks(thread, &call, |tracker, origin| tracker.unmapping(from, to, origin))
    }
    after { blocks::ended(&call, thread, result, held); }
}

//! Multicast objects: one address over memory of several devices. Bound memory is counted where it was
//! allocated, and is held while it is bound. The object itself is a handle like any other and ends with
//! `cuMemRelease`.

use gpumem_capture::{DeviceOrdinal, EventFlags};
use gpumem_cuda_abi::{CuDevice, CuDevicePtr, CuMemHandle, CuMulticastObjectProp, CuResult};
use gpumem_tracker::{Alias, Tracker};

use crate::call::Call;
use crate::thread::Thread;
use crate::{driver, record, session, tracked};

/// Queries the tracker, if there is a capture.
fn known<R>(look: impl FnOnce(&Tracker) -> Option<R>) -> Option<R> {
    session::session().and_then(|session| tracked::look(session, look))
}

fn alias(bytes: usize, device: DeviceOrdinal) -> Alias {
    Alias {
        bytes: bytes as u64,
        device,
        flags: EventFlags::VMM_HANDLE,
        ..Alias::default()
    }
}

/// Records that memory was bound to an object: a handle, if it is known.
fn bound(
    thread: &Thread,
    call: &Call,
    object: CuMemHandle,
    (offset, bytes): (usize, usize),
    device: DeviceOrdinal,
    handle: Option<u64>,
) {
    record::with_stacks(thread, call, device, |tracker, origin| {
        let alias = alias(bytes, device);
        tracker.bound(
            (object.0, device, offset as u64),
            alias,
            handle,
            call.caller(),
            origin,
        );
    });
}

hook! {
    /// An object over several devices, with nothing bound to it yet.
    Driver Optional
    fn cuMulticastCreate(object: *mut CuMemHandle, properties: *const CuMulticastObjectProp) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    with call, thread, result, held;
    before {}
    after {
        if result.is_success() {
            // SAFETY: the call succeeded: the driver has just read the one and written to the other.
            let (made, bytes) = unsafe { (*object, (*properties).size) };
            let device = driver::current_device();
            record::with_stacks(thread, &call, device, |tracker, origin| {
                tracker.handle_opened(made.0, alias(bytes, device), call.caller(), origin);
            });
        }
    }
}

hook! {
    /// Binds physical memory to an object, on the device that it lies on.
    Driver Optional
    fn cuMulticastBindMem(
        object: CuMemHandle,
        object_offset: usize,
        memory: CuMemHandle,
        offset: usize,
        bytes: usize,
        flags: u64,
    ) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    with call, thread, result, held;
    before {}
    after {
        if result.is_success() {
            let device = known(|tracker| tracker.handle_device(memory.0));
            let device = device.unwrap_or(DeviceOrdinal::NONE);
            bound(thread, &call, object, (object_offset, bytes), device, Some(memory.0));
        }
    }
}

hook! {
    /// Binds physical memory to an object, on a device that the caller names.
    Driver Optional
    fn cuMulticastBindMem_v2(
        object: CuMemHandle,
        device: CuDevice,
        object_offset: usize,
        memory: CuMemHandle,
        offset: usize,
        bytes: usize,
        flags: u64,
    ) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    with call, thread, result, held;
    before {}
    after {
        if result.is_success() {
            let device = driver::ordinal(device);
            bound(thread, &call, object, (object_offset, bytes), device, Some(memory.0));
        }
    }
}

hook! {
    /// Binds memory that has an address to an object.
    Driver Optional
    fn cuMulticastBindAddr(
        object: CuMemHandle,
        object_offset: usize,
        pointer: CuDevicePtr,
        bytes: usize,
        flags: u64,
    ) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    with call, thread, result, held;
    before {}
    after {
        if result.is_success() {
            let handle = known(|tracker| tracker.handle_at(pointer.0));
            // The driver reports a pointer's device only to threads that have a context.
            let device = handle.and_then(|handle| known(|tracker| tracker.handle_device(handle)));
            let device = device.unwrap_or_else(|| driver::device_of(pointer.0));
            bound(thread, &call, object, (object_offset, bytes), device, handle);
        }
    }
}

hook! {
    /// Binds memory that has an address to an object, on a device that the caller names.
    Driver Optional
    fn cuMulticastBindAddr_v2(
        object: CuMemHandle,
        device: CuDevice,
        object_offset: usize,
        pointer: CuDevicePtr,
        bytes: usize,
        flags: u64,
    ) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    with call, thread, result, held;
    before {}
    after {
        if result.is_success() {
            let device = driver::ordinal(device);
            let handle = known(|tracker| tracker.handle_at(pointer.0));
            bound(thread, &call, object, (object_offset, bytes), device, handle);
        }
    }
}

hook! {
    /// Removes a binding from an object.
    Driver Optional
    fn cuMulticastUnbind(
        object: CuMemHandle,
        device: CuDevice,
        offset: usize,
        bytes: usize,
    ) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    with call, thread, result, held;
    before {}
    after {
        if result.is_success() {
            let device = driver::ordinal(device);
            record::without_stacks(thread, &call, |tracker, origin| {
                let place = (object.0, device, offset as u64);
                tracker.unbound(place, alias(bytes, device), origin);
            });
        }
    }
}

//! Multicast objects: one address over memory of several devices. What is bound is counted where it was
//! created, and is held for as long as it is bound; the object itself is a handle like any other and
//! ends with `cuMemRelease`.

use gpumem_capture::{DeviceOrdinal, EventFlags, EventKind, Level};
use gpumem_cuda_abi::{CuDevice, CuDevicePtr, CuMemHandle, CuMulticastObjectProp, CuResult};

use super::handles;
use crate::call::Call;
use crate::driver;
use crate::sideband::{self, Sideband};
use crate::thread::Thread;

/// Records that an alias came or went: `bytes` of the object `object`.
fn remark(
    thread: &Thread,
    call: &Call,
    kind: EventKind,
    object: CuMemHandle,
    bytes: usize,
    device: DeviceOrdinal,
) {
    let begins = kind == EventKind::ALIAS;
    let what = Sideband {
        ptr: object.0,
        bytes: bytes as u64,
        aux: if begins { call.caller() } else { 0 },
        device,
        flags: EventFlags::VMM_HANDLE,
        with_stacks: begins,
    };
    sideband::record(thread, call.api(), kind, Level::DRIVER, what);
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
            handles::made(made.0, Level::DRIVER, device, true);
            remark(thread, &call, EventKind::ALIAS, made, bytes, device);
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
            let device = handles::device_of(memory.0).unwrap_or(DeviceOrdinal::NONE);
            handles::bound(object.0, device, object_offset, Some(memory.0));
            remark(thread, &call, EventKind::ALIAS, object, bytes, device);
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
            handles::bound(object.0, device, object_offset, Some(memory.0));
            remark(thread, &call, EventKind::ALIAS, object, bytes, device);
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
            let handle = handles::handle_at(pointer.0);
            // The driver tells a pointer's device only to threads that have a context.
            let device = handle.and_then(handles::device_of);
            let device = device.unwrap_or_else(|| driver::device_of(pointer.0));
            handles::bound(object.0, device, object_offset, handle);
            remark(thread, &call, EventKind::ALIAS, object, bytes, device);
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
            handles::bound(object.0, device, object_offset, handles::handle_at(pointer.0));
            remark(thread, &call, EventKind::ALIAS, object, bytes, device);
        }
    }
}

hook! {
    /// Takes what is bound from an object.
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
            remark(thread, &call, EventKind::ALIAS_END, object, bytes, device);
            handles::unbound(thread, &call, object.0, device, offset);
        }
    }
}

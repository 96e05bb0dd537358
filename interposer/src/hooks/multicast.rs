//! Multicast objects: one address over memory of several devices. What is bound is counted where it was
//! created; the object itself is a handle like any other and ends with `cuMemRelease`.

use gpumem_capture::{DeviceOrdinal, EventFlags, EventKind, Level};
use gpumem_cuda_abi::{CuDevice, CuDevicePtr, CuMemHandle, CuMulticastObjectProp, CuResult};

use super::vmm;
use crate::call::Call;
use crate::record::{self, Remark};
use crate::symbols::driver;
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
    let what = Remark {
        ptr: object.0,
        bytes: bytes as u64,
        aux: if begins { call.caller() } else { 0 },
        device,
        flags: EventFlags::VMM_HANDLE,
        with_stacks: begins,
    };
    record::remark(thread, call.api(), kind, Level::DRIVER, what);
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
            vmm::imported(made.0, device);
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
            let device = vmm::device_of(memory.0).unwrap_or(DeviceOrdinal::NONE);
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
            remark(thread, &call, EventKind::ALIAS, object, bytes, driver::ordinal(device));
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
            let device = driver::device_of(pointer.0);
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
            remark(thread, &call, EventKind::ALIAS, object, bytes, driver::ordinal(device));
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
            remark(thread, &call, EventKind::ALIAS_END, object, bytes, driver::ordinal(device));
        }
    }
}

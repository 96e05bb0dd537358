//! Multicast objects: one address over memory of several devices. What is bound is counted where it was
//! created, and is held for as long as it is bound; the object itself is a handle like any other and
//! ends with `cuMemRelease`.

use std::collections::BTreeMap;

use gpumem_capture::{DeviceOrdinal, EventFlags, EventKind, Level};
use gpumem_cuda_abi::{CuDevice, CuDevicePtr, CuMemHandle, CuMulticastObjectProp, CuResult};

use super::vmm;
use crate::call::Call;
use crate::driver;
use crate::lock::{Guard, Lock};
use crate::record::{self, Remark};
use crate::thread::Thread;

/// Where something is bound: object, device, offset in the object.
type Place = (u64, u8, usize);

/// The handles that are bound, never locked across a driver call.
fn bindings() -> Guard<'static, BTreeMap<Place, u64>> {
    static BINDINGS: Lock<BTreeMap<Place, u64>> = Lock::new(BTreeMap::new());
    BINDINGS.lock()
}

/// Takes note of what was bound, if it is a handle that is known.
fn bound(object: CuMemHandle, device: DeviceOrdinal, offset: usize, handle: Option<u64>) {
    if let Some(handle) = handle {
        vmm::mapped(handle);
        bindings().insert((object.0, device.0, offset), handle);
    }
}

/// Forgets what is bound to an object that has ended; what only it held ends with it.
pub(super) fn forget(thread: &Thread, call: &Call, object: u64) {
    let gone: Vec<u64> = {
        let mut all = bindings();
        let of_object = (object, 0, 0)..=(object, u8::MAX, usize::MAX);
        let places: Vec<Place> = all.range(of_object).map(|(place, _)| *place).collect();
        places
            .into_iter()
            .filter_map(|place| all.remove(&place))
            .collect()
    };
    for handle in gone {
        vmm::unmapped(thread, call, handle);
    }
}

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
            bound(object, device, object_offset, Some(memory.0));
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
            bound(object, device, object_offset, Some(memory.0));
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
            let handle = vmm::handle_at(pointer.0);
            // The driver tells a pointer's device only to threads that have a context.
            let device = handle.and_then(vmm::device_of);
            let device = device.unwrap_or_else(|| driver::device_of(pointer.0));
            bound(object, device, object_offset, handle);
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
            bound(object, device, object_offset, vmm::handle_at(pointer.0));
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
            let gone = bindings().remove(&(object.0, device.0, offset));
            if let Some(handle) = gone {
                vmm::unmapped(thread, &call, handle);
            }
        }
    }
}

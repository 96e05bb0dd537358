//! Memory of other processes and APIs: opened, mapped, imported; counted where it was allocated.

use core::ffi::c_void;

use gpumem_capture::EventFlags;
use gpumem_cuda_abi::{
    CuDevicePtr, CuExternalMemory, CuExternalMemoryBufferDesc, CuExternalMemoryHandleDesc,
    CuExternalMemoryMipmappedArrayDesc, CuIpcMemHandle, CuMemoryPool, CuMipmappedArray, CuResult,
};

use gpumem_tracker::{Alias, Pending};

use super::{array_size, blocks, places};
use crate::call::Call;
use crate::thread::Thread;
use crate::{driver, record};

/// Records that foreign memory is accessible at `ptr`: on the current context's device, or where the pool is. A pool
/// itself has no bytes.
fn opened(thread: &Thread, call: &Call, ptr: u64, bytes: u64, flags: EventFlags) {
    if ptr == 0 {
        return;
    }
    let is_pooled = flags.contains(EventFlags::STREAM_ORDERED);
    let device = match is_pooled {
        true if bytes > 0 => driver::device_of(ptr),
        true => {
            let location = driver::pool_location(CuMemoryPool(ptr as *mut _));
            let place = location.map(|(allocation, at)| places::of(allocation, at));
            let device = place.and_then(|place| places::recorded_as(place).1);
            device.unwrap_or_else(driver::current_device)
        }
        false => driver::current_device(),
    };
    let alias = Alias {
        bytes,
        device,
        context: if is_pooled {
            0
        } else {
            driver::current_context()
        },
        flags,
    };
    record::with_stacks(thread, call, device, |tracker, origin| {
        tracker.opened(ptr, alias, call.caller(), origin);
    });
}

/// Records that the alias at `ptr` is about to be closed.
fn closing(thread: &Thread, call: &Call, ptr: u64) -> Option<Pending> {
    record::without_stacks(thread, call, |tracker, origin| tracker.closing(ptr, origin)).flatten()
}

macro_rules! opening {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        hook! {
            $(#[$doc])*
            Driver Optional
            fn $name(pointer: *mut CuDevicePtr, handle: CuIpcMemHandle, flags: u32) -> CuResult;
            missing CuResult::NOT_INITIALIZED;
            with call, thread, result, held;
            before {}
            after {
                if result.is_success() {
                    // SAFETY: the call succeeded, so the driver has just written there.
                    let pointer = unsafe { *pointer };
                    let bytes = driver::range_of(pointer).map_or(0, |range| range.bytes);
                    opened(thread, &call, pointer.0, bytes, EventFlags::NONE);
                }
            }
        }
    )*};
}

opening! {
    /// Another process's allocation, as a whole.
    cuIpcOpenMemHandle_v2;
    /// CUDA 4.1's form.
    cuIpcOpenMemHandle;
}

hook! {
    /// Closes an alias; the memory belongs to its owner.
    Driver Optional
    fn cuIpcCloseMemHandle(pointer: CuDevicePtr) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    with call, thread, result, held;
    before { closing(thread, &call, pointer.0) }
    after { blocks::ended(&call, thread, result, held); }
}

hook! {
    /// Memory of Vulkan, Direct3D and others, as an object.
    Driver Optional
    fn cuImportExternalMemory(
        memory: *mut CuExternalMemory,
        description: *const CuExternalMemoryHandleDesc,
    ) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    with call, thread, result, held;
    before {}
    after {
        if result.is_success() {
            // SAFETY: the call succeeded: the driver has just read the one and written to the other.
            let (made, bytes) = unsafe { ((*memory).0 as u64, (*description).size) };
            opened(thread, &call, made, bytes, EventFlags::NONE);
        }
    }
}

hook! {
    /// A part of such an object at an address, which `cuMemFree` ends.
    Driver Optional
    fn cuExternalMemoryGetMappedBuffer(
        pointer: *mut CuDevicePtr,
        memory: CuExternalMemory,
        description: *const CuExternalMemoryBufferDesc,
    ) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    with call, thread, result, held;
    before {}
    after {
        if result.is_success() {
            // SAFETY: the call succeeded: the driver has just read the one and written to the other.
            let (pointer, bytes) = unsafe { ((*pointer).0, (*description).size) };
            opened(thread, &call, pointer, bytes, EventFlags::NONE);
        }
    }
}

hook! {
    /// A part of such an object as a mipmapped array, which `cuMipmappedArrayDestroy` ends.
    Driver Optional
    fn cuExternalMemoryGetMappedMipmappedArray(
        array: *mut CuMipmappedArray,
        memory: CuExternalMemory,
        description: *const CuExternalMemoryMipmappedArrayDesc,
    ) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    with call, thread, result, held;
    before {}
    after {
        if result.is_success() {
            // SAFETY: the call succeeded: the driver has just read the one and written to the other.
            let (array, description) = unsafe { ((*array).0 as u64, &*description) };
            let bytes = array_size::mipmapped(&description.array, description.num_levels);
            opened(thread, &call, array, bytes.unwrap_or(0), EventFlags::ARRAY);
        }
    }
}

hook! {
    /// Ends the object; its mappings end separately.
    Driver Optional
    fn cuDestroyExternalMemory(memory: CuExternalMemory) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    with call, thread, result, held;
    before { closing(thread, &call, memory.0 as u64) }
    after { blocks::ended(&call, thread, result, held); }
}

hook! {
    /// Another process's pool: nothing is allocated from it here.
    Driver Optional
    fn cuMemPoolImportFromShareableHandle(
        pool: *mut CuMemoryPool,
        handle: *mut c_void,
        kind: u32,
        flags: u64,
    ) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    with call, thread, result, held;
    before {}
    after {
        if result.is_success() {
            // SAFETY: the call succeeded, so the driver has just written there.
            let made = unsafe { (*pool).0 as u64 };
            opened(thread, &call, made, 0, EventFlags::STREAM_ORDERED);
        }
    }
}

hook! {
    /// A block of such a pool, which `cuMemFree` or `cuMemFreeAsync` ends.
    Driver Optional
    fn cuMemPoolImportPointer(
        pointer: *mut CuDevicePtr,
        pool: CuMemoryPool,
        shared: *mut c_void,
    ) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    with call, thread, result, held;
    before {}
    after {
        if result.is_success() {
            // SAFETY: the call succeeded, so the driver has just written there.
            let pointer = unsafe { *pointer };
            let bytes = driver::range_of(pointer).map_or(0, |range| range.bytes);
            opened(thread, &call, pointer.0, bytes, EventFlags::STREAM_ORDERED);
        }
    }
}

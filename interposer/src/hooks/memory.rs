//! The driver's plain memory: device, managed and pinned.

use core::ffi::c_void;

use gpumem_capture::{EventFlags, Level};
use gpumem_cuda_abi::{CuDevicePtr, CuResult};

use super::blocks::{self, Request, Source};
use crate::limit::Takes;
use crate::record;

/// Device memory that belongs to the current context.
pub(super) const fn device(bytes: u64, flags: EventFlags) -> Request {
    Request {
        level: Level::DRIVER,
        bytes,
        source: Source::Context,
        flags,
    }
}

/// Pinned host memory that belongs to the current context.
pub(super) const fn pinned(bytes: u64) -> Request {
    Request {
        level: Level::HOST,
        bytes,
        source: Source::Context,
        flags: EventFlags::NONE,
    }
}

hook! {
    /// Device memory.
    Driver Required
    fn cuMemAlloc_v2(pointer: *mut CuDevicePtr, bytes: usize) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    takes Takes::here(bytes as u64);
    with call, thread, result, held;
    before {}
    after {
        // SAFETY: the call succeeded, so the driver has just written there.
        blocks::requested(&call, thread, result.0, device(bytes as u64, EventFlags::NONE), || unsafe {
            (*pointer).0
        });
    }
}

hook! {
    /// Rows of device memory: pitch × height bytes.
    Driver Required
    fn cuMemAllocPitch_v2(
        pointer: *mut CuDevicePtr,
        pitch: *mut usize,
        width: usize,
        height: usize,
        element: u32,
    ) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    takes Takes::rows(width as u64, height as u64);
    with call, thread, result, held;
    before {}
    after {
        // SAFETY: the call succeeded, so the driver has just written the pitch.
        let row = if result.is_success() { unsafe { *pitch } } else { width };
        let asked = device((row as u64).saturating_mul(height as u64), EventFlags::NONE);
        // SAFETY: as above, of the pointer.
        blocks::requested(&call, thread, result.0, asked, || unsafe { (*pointer).0 });
    }
}

hook! {
    /// Managed memory; its location is unknown.
    Driver Required
    fn cuMemAllocManaged(pointer: *mut CuDevicePtr, bytes: usize, flags: u32) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    takes Takes::here(bytes as u64);
    with call, thread, result, held;
    before {}
    after {
        let asked = device(bytes as u64, EventFlags::MANAGED);
        // SAFETY: the call succeeded, so the driver has just written there.
        blocks::requested(&call, thread, result.0, asked, || unsafe { (*pointer).0 });
    }
}

hook! {
    /// Releases device memory of every kind that has a pointer. It waits for the device: pools free unused memory.
    Driver Required
    fn cuMemFree_v2(pointer: CuDevicePtr) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    with call, thread, result, held;
    before {
        blocks::releasing(&mut call, thread, Level::DRIVER, pointer.0, EventFlags::NONE)
    }
    after {
        blocks::released(&call, thread, result.0, held);
        record::settle(thread, call.api());
    }
}

hook! {
    /// Pinned host memory.
    Driver Required
    fn cuMemAllocHost_v2(pointer: *mut *mut c_void, bytes: usize) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    with call, thread, result, held;
    before {}
    after {
        // SAFETY: the call succeeded, so the driver has just written there.
        blocks::requested(&call, thread, result.0, pinned(bytes as u64), || unsafe {
            *pointer as u64
        });
    }
}

hook! {
    /// The form from before CUDA 3.2.
    Driver Optional
    fn cuMemAllocHost(pointer: *mut *mut c_void, bytes: u32) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    with call, thread, result, held;
    before {}
    after {
        // SAFETY: the call succeeded, so the driver has just written there.
        blocks::requested(&call, thread, result.0, pinned(bytes.into()), || unsafe {
            *pointer as u64
        });
    }
}

hook! {
    /// Pinned host memory with flags.
    Driver Required
    fn cuMemHostAlloc(pointer: *mut *mut c_void, bytes: usize, flags: u32) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    with call, thread, result, held;
    before {}
    after {
        // SAFETY: the call succeeded, so the driver has just written there.
        blocks::requested(&call, thread, result.0, pinned(bytes as u64), || unsafe {
            *pointer as u64
        });
    }
}

hook! {
    /// Releases pinned host memory.
    Driver Required
    fn cuMemFreeHost(pointer: *mut c_void) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    with call, thread, result, held;
    before {
        blocks::releasing(&mut call, thread, Level::HOST, pointer as u64, EventFlags::NONE)
    }
    after { blocks::released(&call, thread, result.0, held); }
}

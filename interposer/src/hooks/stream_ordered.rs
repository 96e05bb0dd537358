//! Stream-ordered memory, for legacy and per-thread default streams.

use gpumem_capture::{EventFlags, Level};
use gpumem_cuda_abi::{CuDevicePtr, CuMemoryPool, CuResult, CuStream};

use super::seen::{self, Asked, Owner};
use crate::symbols::driver;

/// Memory of a pool (null: the current device's): it outlives contexts.
pub(super) fn from_pool(bytes: usize, pool: CuMemoryPool, stream: CuStream) -> Asked {
    let device = driver::current_device();
    let pool = if pool.is_null() {
        driver::pool_of(device).unwrap_or(pool)
    } else {
        pool
    };
    let owner = Owner::Pool(pool.0 as u64);
    let flags = if driver::is_capturing(stream) {
        EventFlags::STREAM_ORDERED.with(EventFlags::CAPTURE)
    } else {
        EventFlags::STREAM_ORDERED
    };
    Asked {
        level: Level::DRIVER,
        bytes: bytes as u64,
        owner,
        flags,
    }
}

macro_rules! stream_ordered {
    ($($alloc:ident, $from_pool:ident, $free:ident;)*) => {$(
        hook! {
            /// Memory from the current pool of the stream's device.
            Driver Required
            fn $alloc(pointer: *mut CuDevicePtr, bytes: usize, stream: CuStream) -> CuResult;
            missing CuResult::NOT_INITIALIZED;
            with call, thread, result, held;
            before {}
            after {
                let asked = from_pool(bytes, CuMemoryPool::NULL, stream);
                // SAFETY: the call succeeded, so the driver has just written there.
                seen::asked_for(&call, thread, result.0, asked, || unsafe { (*pointer).0 });
            }
        }

        hook! {
            /// Memory from a pool that the caller names.
            Driver Required
            fn $from_pool(
                pointer: *mut CuDevicePtr,
                bytes: usize,
                pool: CuMemoryPool,
                stream: CuStream,
            ) -> CuResult;
            missing CuResult::NOT_INITIALIZED;
            with call, thread, result, held;
            before {}
            after {
                let asked = from_pool(bytes, pool, stream);
                // SAFETY: the call succeeded, so the driver has just written there.
                seen::asked_for(&call, thread, result.0, asked, || unsafe { (*pointer).0 });
            }
        }

        hook! {
            /// Gives memory back to its pool.
            Driver Required
            fn $free(pointer: CuDevicePtr, stream: CuStream) -> CuResult;
            missing CuResult::NOT_INITIALIZED;
            with call, thread, result, held;
            before {
                let flags = EventFlags::STREAM_ORDERED;
                seen::about_to_release(&mut call, thread, Level::DRIVER, pointer.0, flags)
            }
            after { seen::released(&call, thread, result.0, held); }
        }
    )*};
}

stream_ordered! {
    cuMemAllocAsync, cuMemAllocFromPoolAsync, cuMemFreeAsync;
    cuMemAllocAsync_ptsz, cuMemAllocFromPoolAsync_ptsz, cuMemFreeAsync_ptsz;
}

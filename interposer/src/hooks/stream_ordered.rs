//! Stream-ordered memory, for legacy and per-thread default streams.

use gpumem_capture::{EventFlags, Level};
use gpumem_cuda_abi::{CuDevicePtr, CuMemoryPool, CuResult, CuStream};

use super::seen::{self, Asked, Owner};
use crate::symbols::driver;

/// Memory of a pool: it outlives contexts.
pub(super) fn from_pool(bytes: usize, owner: Owner, stream: CuStream) -> Asked {
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
    ($($id:literal $alloc:ident, $pool_id:literal $from_pool:ident, $free_id:literal $free:ident;)*) => {$(
        hook! {
            /// Memory from the current pool of the stream's device.
            $id Driver Required
            fn $alloc(pointer: *mut CuDevicePtr, bytes: usize, stream: CuStream) -> CuResult;
            missing CuResult::NOT_INITIALIZED;
            with call, thread, result, held;
            before {}
            after {
                let asked = from_pool(bytes, Owner::Pointer, stream);
                // SAFETY: the call succeeded, so the driver has just written there.
                seen::asked_for(&call, thread, result.0, asked, || unsafe { (*pointer).0 });
            }
        }

        hook! {
            /// Memory from a pool that the caller names.
            $pool_id Driver Required
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
                let asked = from_pool(bytes, Owner::Pointer, stream);
                // SAFETY: the call succeeded, so the driver has just written there.
                seen::asked_for(&call, thread, result.0, asked, || unsafe { (*pointer).0 });
            }
        }

        hook! {
            /// Gives memory back to its pool.
            $free_id Driver Required
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
    10 cuMemAllocAsync, 12 cuMemAllocFromPoolAsync, 14 cuMemFreeAsync;
    11 cuMemAllocAsync_ptsz, 13 cuMemAllocFromPoolAsync_ptsz, 15 cuMemFreeAsync_ptsz;
}

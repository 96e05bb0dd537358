//! The runtime API, by name. Its functions call the driver, where the hooks record them. Here only
//! the name that the program called is recorded, and memory that does not come through the driver's
//! hooks.

use core::ffi::c_void;

use gpumem_capture::{EventFlags, Level};
use gpumem_cuda_abi::{CuMemoryPool, CuStream, CudaError, CudaExtent, CudaPitchedPtr};

use super::blocks::{self, Request, Source};
use super::stream_ordered::{about_to_release, from_pool};

/// Memory that belongs to the current context.
const fn plain(level: Level, bytes: u64, flags: EventFlags) -> Request {
    Request {
        level,
        bytes,
        source: Source::Context,
        flags,
    }
}

macro_rules! allocating {
    ($(
        $(#[$doc:meta])*
        $name:ident($pointer:ident, $bytes:ident $(, $arg:ident: $type:ty)*) $asked:expr;
    )*) => {$(
        hook! {
            $(#[$doc])*
            Runtime Optional
            fn $name($pointer: *mut *mut c_void, $bytes: usize $(, $arg: $type)*) -> CudaError;
            missing CudaError::INITIALIZATION_ERROR;
            with call, thread, result, held;
            before {}
            after {
                if !call.inner_allocated() {
                    // SAFETY: the call succeeded, so the runtime has just written there.
                    let pointer = || unsafe { *$pointer as u64 };
                    blocks::requested(&call, thread, result.0, $asked, pointer);
                }
            }
        }
    )*};
}

allocating! {
    /// Device memory.
    cudaMalloc(pointer, bytes) plain(Level::DRIVER, bytes as u64, EventFlags::NONE);
    /// Managed memory.
    cudaMallocManaged(pointer, bytes, flags: u32)
        plain(Level::DRIVER, bytes as u64, EventFlags::MANAGED);
    /// Pinned host memory.
    cudaMallocHost(pointer, bytes) plain(Level::HOST, bytes as u64, EventFlags::NONE);
    /// Pinned host memory with flags.
    cudaHostAlloc(pointer, bytes, flags: u32)
        plain(Level::HOST, bytes as u64, EventFlags::NONE);
    /// Stream-ordered memory.
    cudaMallocAsync(pointer, bytes, stream: CuStream)
        from_pool("cudaMallocAsync", bytes, CuMemoryPool::NULL, stream);
    /// Stream-ordered memory, per-thread default stream.
    cudaMallocAsync_ptsz(pointer, bytes, stream: CuStream)
        from_pool("cudaMallocAsync_ptsz", bytes, CuMemoryPool::NULL, stream);
    /// Stream-ordered memory from a pool.
    cudaMallocFromPoolAsync(pointer, bytes, pool: CuMemoryPool, stream: CuStream)
        from_pool("cudaMallocFromPoolAsync", bytes, pool, stream);
    /// Stream-ordered memory from a pool, per-thread default stream.
    cudaMallocFromPoolAsync_ptsz(pointer, bytes, pool: CuMemoryPool, stream: CuStream)
        from_pool("cudaMallocFromPoolAsync_ptsz", bytes, pool, stream);
}

hook! {
    /// Rows of device memory: pitch × height bytes.
    Runtime Optional
    fn cudaMallocPitch(
        pointer: *mut *mut c_void,
        pitch: *mut usize,
        width: usize,
        height: usize,
    ) -> CudaError;
    missing CudaError::INITIALIZATION_ERROR;
    with call, thread, result, held;
    before {}
    after {
        // SAFETY: the call succeeded, so the runtime has just written the pitch.
        let row = if result.is_success() { unsafe { *pitch } } else { width };
        let asked = plain(Level::DRIVER, row as u64 * height as u64, EventFlags::NONE);
        // SAFETY: as above, of the pointer.
        blocks::requested(&call, thread, result.0, asked, || unsafe { *pointer as u64 });
    }
}

hook! {
    /// Slices of rows: pitch × height × depth bytes.
    Runtime Optional
    fn cudaMalloc3D(pitched: *mut CudaPitchedPtr, extent: CudaExtent) -> CudaError;
    missing CudaError::INITIALIZATION_ERROR;
    with call, thread, result, held;
    before {}
    after {
        // SAFETY: the call succeeded, so the runtime has just written the structure.
        let row = if result.is_success() { unsafe { (*pitched).pitch } } else { extent.width };
        let bytes = row as u64 * extent.height as u64 * extent.depth as u64;
        let asked = plain(Level::DRIVER, bytes, EventFlags::NONE);
        // SAFETY: as above.
        blocks::requested(&call, thread, result.0, asked, || unsafe { (*pitched).ptr as u64 });
    }
}

macro_rules! releasing {
    ($(
        $(#[$doc:meta])*
        $name:ident($pointer:ident $(, $stream:ident)?) |$call:ident, $thread:ident| $held:expr;
    )*) => {$(
        hook! {
            $(#[$doc])*
            Runtime Optional
            fn $name($pointer: *mut c_void $(, $stream: CuStream)?) -> CudaError;
            missing CudaError::INITIALIZATION_ERROR;
            with $call, $thread, result, held;
            before { $held }
            after { blocks::released(&$call, $thread, result.0, held); }
        }
    )*};
}

releasing! {
    /// Releases device memory.
    cudaFree(pointer) |call, thread| {
        let (level, pointer) = (Level::DRIVER, pointer as u64);
        blocks::releasing(&mut call, thread, level, pointer, EventFlags::NONE)
    };
    /// Releases pinned host memory.
    cudaFreeHost(pointer) |call, thread| {
        let (level, pointer) = (Level::HOST, pointer as u64);
        blocks::releasing(&mut call, thread, level, pointer, EventFlags::NONE)
    };
    /// Returns memory to its pool.
    cudaFreeAsync(pointer, stream) |call, thread| {
        about_to_release("cudaFreeAsync", &mut call, thread, pointer as u64, stream)
    };
    /// Returns memory to its pool, per-thread default stream.
    cudaFreeAsync_ptsz(pointer, stream) |call, thread| {
        about_to_release("cudaFreeAsync_ptsz", &mut call, thread, pointer as u64, stream)
    };
}

hook! {
    /// Ends the primary context: the driver's hook records the releases.
    Runtime Optional
    fn cudaDeviceReset() -> CudaError;
    missing CudaError::INITIALIZATION_ERROR;
    with call, thread, result, held;
    before {}
    after {}
}

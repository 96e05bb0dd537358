//! Allocation of device, managed and host memory.

use crate::context;
use gpumem_cuda_abi::{CudaExtent, CudaPitchedPtr};
use gpumem_sim_client::cu;
use gpumem_sim_client::ffi::{Address, Answer, Out, require};

/// Rows of a pitched allocation are aligned for elements of this size.
const ELEMENT_BYTES: u32 = 4;

/// `cudaMalloc`: a null pointer for 0 bytes.
pub fn malloc(pointer: Out<Address>, bytes: usize) -> Answer {
    require(!pointer.is_null())?;
    if bytes == 0 {
        return pointer.put(0);
    }
    cu::cuMemAlloc(pointer, bytes)
}

/// `cudaFree`: null is valid, and initialises CUDA.
pub fn free(pointer: Address) -> Answer {
    if pointer == 0 {
        return Ok(());
    }
    cu::cuMemFree(pointer)
}

/// `cudaMallocManaged`.
pub fn malloc_managed(pointer: Out<Address>, bytes: usize, flags: u32) -> Answer {
    require(!pointer.is_null() && bytes > 0)?;
    cu::cuMemAllocManaged(pointer, bytes, flags)
}

/// `cudaMallocPitch`.
pub fn malloc_pitch(
    pointer: Out<Address>,
    pitch: Out<usize>,
    width_bytes: usize,
    height: usize,
) -> Answer {
    require(!pointer.is_null() && !pitch.is_null())?;
    if width_bytes == 0 || height == 0 {
        pitch.put(0)?;
        return pointer.put(0);
    }
    cu::cuMemAllocPitch(pointer, pitch, width_bytes, height, ELEMENT_BYTES)
}

/// `cudaMalloc3D`: slices follow one another, each of whole rows.
pub fn malloc_3d(pitched: Out<CudaPitchedPtr>, extent: CudaExtent) -> Answer {
    let rows = extent.height.checked_mul(extent.depth);
    let (mut pointer, mut pitch) = (0, 0);
    malloc_pitch(
        Out::to(&mut pointer),
        Out::to(&mut pitch),
        extent.width,
        rows.unwrap_or(usize::MAX),
    )?;
    pitched.put(CudaPitchedPtr {
        ptr: pointer as *mut _,
        pitch,
        xsize: extent.width,
        ysize: extent.height,
    })
}

/// `cudaMallocHost`.
pub fn malloc_host(pointer: Out<Address>, bytes: usize) -> Answer {
    host_alloc(pointer, bytes, 0)
}

/// `cudaHostAlloc`: a null pointer for 0 bytes.
pub fn host_alloc(pointer: Out<Address>, bytes: usize, flags: u32) -> Answer {
    require(!pointer.is_null())?;
    if bytes == 0 {
        return pointer.put(0);
    }
    cu::cuMemHostAlloc(pointer, bytes, flags)
}

/// `cudaFreeHost`: null is valid.
pub fn free_host(pointer: Address) -> Answer {
    if pointer == 0 {
        return Ok(());
    }
    cu::cuMemFreeHost(pointer)
}

/// `cudaDeviceEnablePeerAccess`: to a device's primary context, which is created for it.
pub fn enable_peer_access(peer: i32, flags: u32) -> Answer {
    context::check_device(peer)?;
    cu::cuCtxEnablePeerAccess(context::primary(peer)?, flags)
}

/// `cudaDeviceDisablePeerAccess`.
pub fn disable_peer_access(peer: i32) -> Answer {
    context::check_device(peer)?;
    cu::cuCtxDisablePeerAccess(context::primary(peer)?)
}

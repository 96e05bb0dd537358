//! Fills.

use gpumem_cuda_abi::{CudaExtent, CudaPitchedPtr};
use gpumem_sim_client::cu;
use gpumem_sim_client::ffi::{Address, Answer, Handle};

/// `cudaMemset`: only the lowest byte of the value counts.
pub fn linear(pointer: Address, value: i32, bytes: usize) -> Answer {
    if bytes == 0 {
        return Ok(());
    }
    cu::cuMemsetD8(pointer, value as u8, bytes)
}

/// `cudaMemsetAsync`.
pub fn linear_async(pointer: Address, value: i32, bytes: usize, stream: Handle) -> Answer {
    if bytes == 0 {
        return Ok(());
    }
    cu::cuMemsetD8Async(pointer, value as u8, bytes, stream)
}

/// `cudaMemset2D`.
pub fn rows(pointer: Address, pitch: usize, value: i32, width: usize, height: usize) -> Answer {
    if width == 0 || height == 0 {
        return Ok(());
    }
    cu::cuMemsetD2D8(pointer, pitch, value as u8, width, height)
}

/// `cudaMemset2DAsync`.
pub fn rows_async(
    pointer: Address,
    pitch: usize,
    value: i32,
    width: usize,
    height: usize,
    stream: Handle,
) -> Answer {
    if width == 0 || height == 0 {
        return Ok(());
    }
    cu::cuMemsetD2D8Async(pointer, pitch, value as u8, width, height, stream)
}

/// The first byte of each slice of a box.
fn slices(pitched: CudaPitchedPtr, extent: CudaExtent) -> impl Iterator<Item = Address> {
    let slice_bytes = pitched.pitch * pitched.ysize;
    (0..extent.depth).map(move |slice| pitched.ptr as Address + slice * slice_bytes)
}

/// `cudaMemset3D`: slice by slice.
pub fn cuboid(pitched: CudaPitchedPtr, value: i32, extent: CudaExtent) -> Answer {
    slices(pitched, extent)
        .try_for_each(|slice| rows(slice, pitched.pitch, value, extent.width, extent.height))
}

/// `cudaMemset3DAsync`.
pub fn cuboid_async(
    pitched: CudaPitchedPtr,
    value: i32,
    extent: CudaExtent,
    stream: Handle,
) -> Answer {
    slices(pitched, extent).try_for_each(|slice| {
        let CudaExtent { width, height, .. } = extent;
        rows_async(slice, pitched.pitch, value, width, height, stream)
    })
}

//! The runtime's arrays and registered memory. An array of the runtime is an array of the driver under
//! another name.

use core::ffi::c_void;

use gpumem_capture::{EventFlags, Level};
use gpumem_cuda_abi::{
    CuArray, CuArray3dDescriptor, CuMipmappedArray, CudaChannelFormatDesc, CudaError, CudaExtent,
};

use super::host_register::registered;
use super::{arrays, blocks};

/// Converts the runtime's description of an array to the driver's. Kinds that are neither integers nor
/// floats have no format here: their bytes are unknown.
fn described(
    channels: &CudaChannelFormatDesc,
    extent: CudaExtent,
    flags: u32,
) -> CuArray3dDescriptor {
    let [first, ..] = channels.bits;
    let format = match (channels.kind, first) {
        (0 | 1, 8) => 0x01,
        (0..=2, 16) => 0x02,
        (0..=2, 32) => 0x03,
        _ => 0,
    };
    let num_channels = channels.bits.iter().filter(|bits| **bits != 0).count() as u32;
    CuArray3dDescriptor {
        width: extent.width,
        height: extent.height,
        depth: extent.depth,
        format,
        num_channels,
        flags,
    }
}

hook! {
    /// An array of one or two dimensions.
    Runtime Optional
    fn cudaMallocArray(
        array: *mut CuArray,
        channels: *const CudaChannelFormatDesc,
        width: usize,
        height: usize,
        flags: u32,
    ) -> CudaError;
    missing CudaError::INITIALIZATION_ERROR;
    with call, thread, result, held;
    before {}
    after {
        // SAFETY: null, or the structure that the runtime has just read.
        if let Some(channels) = unsafe { channels.as_ref() } {
            let descriptor = described(channels, CudaExtent { width, height, depth: 0 }, flags);
            // SAFETY: the call succeeded, so the runtime has just written there.
            arrays::made(&call, thread, result.0, &descriptor, 1, || unsafe { (*array).0 as u64 });
        }
    }
}

hook! {
    /// An array of up to three dimensions, or of layers.
    Runtime Optional
    fn cudaMalloc3DArray(
        array: *mut CuArray,
        channels: *const CudaChannelFormatDesc,
        extent: CudaExtent,
        flags: u32,
    ) -> CudaError;
    missing CudaError::INITIALIZATION_ERROR;
    with call, thread, result, held;
    before {}
    after {
        // SAFETY: null, or the structure that the runtime has just read.
        if let Some(channels) = unsafe { channels.as_ref() } {
            let descriptor = described(channels, extent, flags);
            // SAFETY: the call succeeded, so the runtime has just written there.
            arrays::made(&call, thread, result.0, &descriptor, 1, || unsafe { (*array).0 as u64 });
        }
    }
}

hook! {
    /// An array with smaller levels of itself.
    Runtime Optional
    fn cudaMallocMipmappedArray(
        array: *mut CuMipmappedArray,
        channels: *const CudaChannelFormatDesc,
        extent: CudaExtent,
        levels: u32,
        flags: u32,
    ) -> CudaError;
    missing CudaError::INITIALIZATION_ERROR;
    with call, thread, result, held;
    before {}
    after {
        // SAFETY: null, or the structure that the runtime has just read.
        if let Some(channels) = unsafe { channels.as_ref() } {
            let descriptor = described(channels, extent, flags);
            // SAFETY: the call succeeded, so the runtime has just written there.
            arrays::made(&call, thread, result.0, &descriptor, levels, || unsafe {
                (*array).0 as u64
            });
        }
    }
}

hook! {
    /// Pins memory of the program.
    Runtime Optional
    fn cudaHostRegister(pointer: *mut c_void, bytes: usize, flags: u32) -> CudaError;
    missing CudaError::INITIALIZATION_ERROR;
    with call, thread, result, held;
    before {}
    after {
        let asked = registered(bytes as u64);
        blocks::requested(&call, thread, result.0, asked, || pointer as u64);
    }
}

macro_rules! releasing {
    ($($(#[$doc:meta])* $name:ident $level:expr, $flags:expr;)*) => {$(
        hook! {
            $(#[$doc])*
            Runtime Optional
            fn $name(pointer: *mut c_void) -> CudaError;
            missing CudaError::INITIALIZATION_ERROR;
            with call, thread, result, held;
            before { blocks::releasing(&mut call, thread, $level, pointer as u64, $flags) }
            after { blocks::released(&call, thread, result.0, held); }
        }
    )*};
}

releasing! {
    /// Releases an array.
    cudaFreeArray Level::DRIVER, EventFlags::ARRAY;
    /// Releases a mipmapped array with all its levels, or one that was mapped from outside.
    cudaFreeMipmappedArray Level::DRIVER, EventFlags::ARRAY;
    /// Unpins it; the memory still belongs to the program.
    cudaHostUnregister Level::HOST, EventFlags::REGISTERED;
}

//! CUDA's structures that are passed to the driver by address.

use crate::ffi::{Address, Handle};
use gpumem_cuda_abi::CuArray3dDescriptor;

/// One side of `CUDA_MEMCPY2D`: 56 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Side2d {
    /// Offset in a row, in bytes.
    pub x_bytes: usize,
    /// First row.
    pub y: usize,
    /// `CUmemorytype`: 1 host, 2 device, 3 array, 4 to be looked up.
    pub kind: u32,
    /// The address, if it is the host's.
    pub host: Address,
    /// The address, if it is a device's or to be looked up.
    pub device: Address,
    /// The array, if it is one.
    pub array: Handle,
    /// Bytes from row to row.
    pub pitch: usize,
}

/// `CUDA_MEMCPY2D`: 128 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Memcpy2d {
    /// Where from.
    pub from: Side2d,
    /// Where to.
    pub to: Side2d,
    /// Bytes of a row.
    pub width_bytes: usize,
    /// Rows.
    pub height: usize,
}

/// One side of `CUDA_MEMCPY3D` and `CUDA_MEMCPY3D_PEER`: 88 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Side3d {
    /// Offset in a row, in bytes.
    pub x_bytes: usize,
    /// First row.
    pub y: usize,
    /// First slice.
    pub z: usize,
    /// Level of detail; 0.
    pub level: usize,
    /// As in [`Side2d::kind`].
    pub kind: u32,
    /// The address, if it is the host's.
    pub host: Address,
    /// The address, if it is a device's or to be looked up.
    pub device: Address,
    /// The array, if it is one.
    pub array: Handle,
    /// The context, between peers; else reserved.
    pub context: Handle,
    /// Bytes from row to row.
    pub pitch: usize,
    /// Rows from slice to slice.
    pub height: usize,
}

/// `CUDA_MEMCPY3D` and `CUDA_MEMCPY3D_PEER`: 200 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Memcpy3d {
    /// Where from.
    pub from: Side3d,
    /// Where to.
    pub to: Side3d,
    /// Bytes of a row.
    pub width_bytes: usize,
    /// Rows.
    pub height: usize,
    /// Slices.
    pub depth: usize,
}

/// `CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC`: 120 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ExternalArray {
    /// Where it starts.
    pub offset: u64,
    /// What it is.
    pub shape: CuArray3dDescriptor,
    /// How many levels it has.
    pub levels: u32,
    /// 0.
    pub reserved: [u32; 16],
}

/// `CUlaunchConfig`: 56 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct LaunchConfig {
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Dynamic shared memory of a block.
    pub shared_bytes: u32,
    /// The stream.
    pub stream: Handle,
    /// `CUlaunchAttribute`s, passed on.
    pub attributes: Address,
    /// How many.
    pub attribute_count: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_have_cudas_sizes() {
        assert_eq!(size_of::<Memcpy2d>(), 128);
        assert_eq!(size_of::<Memcpy3d>(), 200);
        assert_eq!(size_of::<ExternalArray>(), 120);
        assert_eq!(size_of::<LaunchConfig>(), 56);
    }
}

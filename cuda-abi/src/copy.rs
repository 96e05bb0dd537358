//! Structures of copies between pitched memory and arrays.

use crate::CuDevicePtr;

/// One side of `CUDA_MEMCPY3D` (`_v2`) and of `CUDA_MEMCPY3D_PEER`: 88 bytes. The peer version has
/// the context where the other has a reserved pointer.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CuMemcpySide3d {
    /// Offset along x in bytes.
    pub x_bytes: usize,
    /// Offset along y in rows.
    pub y: usize,
    /// Offset along z in slices.
    pub z: usize,
    /// Level of detail.
    pub lod: usize,
    /// `CUmemorytype`: 1 host, 2 device, 3 array, 4 unified.
    pub kind: u32,
    /// The host address.
    pub host: usize,
    /// The device or unified address.
    pub device: CuDevicePtr,
    /// The array.
    pub array: usize,
    /// The context, or reserved.
    pub context: usize,
    /// Bytes from row to row.
    pub pitch: usize,
    /// Rows from slice to slice.
    pub height: usize,
}

/// `CUDA_MEMCPY3D` (`_v2`) and `CUDA_MEMCPY3D_PEER`: 200 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CuMemcpy3d {
    /// The source.
    pub from: CuMemcpySide3d,
    /// The destination.
    pub to: CuMemcpySide3d,
    /// Bytes of a row.
    pub width_bytes: usize,
    /// Rows.
    pub height: usize,
    /// Slices.
    pub depth: usize,
}

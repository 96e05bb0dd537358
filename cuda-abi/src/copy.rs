//! Structures of copies between pitched memory and arrays.

use crate::CuDevicePtr;

/// One side of `CUDA_MEMCPY3D` (`_v2`) and of `CUDA_MEMCPY3D_PEER`: 88 bytes. Where the peer's has
/// its context, the other has a reserved pointer.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CuMemcpySide3d {
    /// Bytes to the right.
    pub x_bytes: usize,
    /// Rows down.
    pub y: usize,
    /// Slices.
    pub z: usize,
    /// Level of detail.
    pub lod: usize,
    /// `CUmemorytype`: 1 host, 2 device, 3 array, 4 unified.
    pub kind: u32,
    /// The host's address.
    pub host: usize,
    /// The device's, or a unified one.
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
    /// Where from.
    pub from: CuMemcpySide3d,
    /// Where to.
    pub to: CuMemcpySide3d,
    /// Bytes of a row.
    pub width_bytes: usize,
    /// Rows.
    pub height: usize,
    /// Slices.
    pub depth: usize,
}

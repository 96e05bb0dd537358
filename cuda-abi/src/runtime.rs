//! Structures of the runtime API that pass by value or by pointer through memory functions.

use libc::{c_int, c_void};

/// `cudaExtent`: 24 bytes, by value.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CudaExtent {
    /// Width in bytes (or elements, for arrays).
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// Slices.
    pub depth: usize,
}

/// `cudaPitchedPtr`: 32 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CudaPitchedPtr {
    /// The allocation.
    pub ptr: *mut c_void,
    /// Bytes from row to row.
    pub pitch: usize,
    /// Logical width in elements.
    pub xsize: usize,
    /// Logical height in elements.
    pub ysize: usize,
}

/// `dim3`: 12 bytes, by value.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Dim3 {
    /// Along x.
    pub x: u32,
    /// Along y.
    pub y: u32,
    /// Along z.
    pub z: u32,
}

/// `cudaChannelFormatDesc`: 20 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CudaChannelFormatDesc {
    /// Bits of each channel; 0 for a missing channel.
    pub bits: [c_int; 4],
    /// `cudaChannelFormatKind`: 0 signed, 1 unsigned, 2 float.
    pub kind: u32,
}

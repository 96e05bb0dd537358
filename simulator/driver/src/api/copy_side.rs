//! One side of a copy: its kind of memory.

use gpumem_cuda_abi::{CuDevicePtr, CuMemcpySide3d};

/// `CU_MEMORYTYPE_HOST`.
pub const HOST: u32 = 1;
/// `CU_MEMORYTYPE_DEVICE`.
pub const DEVICE: u32 = 2;
/// `CU_MEMORYTYPE_ARRAY`.
pub const ARRAY: u32 = 3;
/// `CU_MEMORYTYPE_UNIFIED`.
pub const UNIFIED: u32 = 4;

/// An empty side, to be completed.
pub fn no_side() -> CuMemcpySide3d {
    CuMemcpySide3d {
        x_bytes: 0,
        y: 0,
        z: 0,
        lod: 0,
        kind: 0,
        host: 0,
        device: CuDevicePtr(0),
        array: 0,
        context: 0,
        pitch: 0,
        height: 0,
    }
}

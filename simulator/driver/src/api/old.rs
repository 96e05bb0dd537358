//! The functions from before CUDA 3.2, whose device addresses have 32 bits.
//!
//! In NVIDIA's driver they work with contexts of these versions; with any newer one they return
//! `INVALID_CONTEXT`. Here all contexts are newer, because addresses do not fit in 32 bits.

use crate::ffi::{Answer, CuError, Out};
use crate::model::state::state;
use gpumem_cuda_abi::CuDevice;

/// Every function with a 32-bit address or size: `cuMemAlloc`, `cuMemFree`, `cuArrayCreate`…
pub extern "C" fn form() -> Answer {
    drop(state()?);
    Err(CuError::INVALID_CONTEXT)
}

/// `cuMemAllocHost`: returns a host address, but its size has 32 bits.
pub extern "C" fn alloc_host(out: Out<usize>, bytes: u32) -> Answer {
    super::host_memory::alloc_host(out, bytes as usize)
}

/// `cuDeviceTotalMem`: saturates at 32 bits.
pub extern "C" fn total_memory(bytes: Out<u32>, device: CuDevice) -> Answer {
    let state = state()?;
    let device = state.device(device.0)?;
    let total = state.books.device(device).total_bytes();
    bytes.put(u32::try_from(total).unwrap_or(u32::MAX))
}

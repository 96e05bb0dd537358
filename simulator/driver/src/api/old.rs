//! Forms of before CUDA 3.2, whose device addresses have 32 bits.
//!
//! NVIDIA's driver has them for contexts of that age; with any newer one they answer
//! `INVALID_CONTEXT`. There are only newer ones here, since no address fits 32 bits.

use crate::ffi::{Answer, CuError, Out};
use crate::model::state::state;
use gpumem_cuda_abi::CuDevice;

/// What takes or gives a 32-bit address or size: `cuMemAlloc`, `cuMemFree`, `cuArrayCreate`…
pub extern "C" fn form() -> Answer {
    drop(state()?);
    Err(CuError::INVALID_CONTEXT)
}

/// `cuMemAllocHost`: gives a host address, but takes its size in 32 bits.
pub extern "C" fn alloc_host(out: Out<usize>, bytes: u32) -> Answer {
    super::host_memory::alloc_host(out, bytes as usize)
}

/// `cuDeviceTotalMem`: as much of it as 32 bits can say.
pub extern "C" fn total_memory(bytes: Out<u32>, device: CuDevice) -> Answer {
    let state = state()?;
    let device = state.device(device.0)?;
    let total = state.books.device(device).total_bytes();
    bytes.put(u32::try_from(total).unwrap_or(u32::MAX))
}

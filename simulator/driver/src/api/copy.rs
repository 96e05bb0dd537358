//! Copies of plain ranges. What the caller calls device memory must be live memory of the
//! simulated driver; a unified pointer that is not is the host's, as with the real one.

use crate::ffi::{Answer, Handle, In, answer};
use crate::host::{self, Access};
use crate::model::state::state;
use gpumem_cuda_abi::{CuDevicePtr, CuResult};

/// Who says what one end of a copy is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Host memory, by the function's name.
    Host(u64),
    /// Device memory, by the function's name.
    Device(u64),
    /// Either, to be looked up.
    Unified(u64),
}

/// Copies `bytes` bytes after checking both ends.
pub fn copy(to: End, from: End, bytes: u64) -> Answer {
    {
        let state = state()?;
        state.bound()?;
        if bytes == 0 {
            return Ok(());
        }
        let check = |end: End, access: Access| match end {
            End::Host(0) | End::Device(0) | End::Unified(0) => false,
            End::Host(_) => true,
            End::Device(address) => state.memory.covers(address, bytes, access),
            End::Unified(address) => {
                state.memory.holding(address).is_none()
                    || state.memory.covers(address, bytes, access)
            }
        };
        if !check(to, Access::ReadWrite) || !check(from, Access::Read) {
            return Err(CuResult::INVALID_VALUE);
        }
    }
    host::copy(address(to), address(from), bytes);
    Ok(())
}

fn address(end: End) -> u64 {
    match end {
        End::Host(address) | End::Device(address) | End::Unified(address) => address,
    }
}

/// `cuMemcpy`, `cuMemcpyAsync`.
pub extern "C" fn unified(to: CuDevicePtr, from: CuDevicePtr, bytes: usize) -> CuResult {
    answer(|| copy(End::Unified(to.0), End::Unified(from.0), bytes as u64))
}

/// `cuMemcpyHtoD`, `cuMemcpyHtoDAsync`.
pub extern "C" fn host_to_device(to: CuDevicePtr, from: Handle, bytes: usize) -> CuResult {
    answer(|| copy(End::Device(to.0), End::Host(from as u64), bytes as u64))
}

/// `cuMemcpyDtoH`, `cuMemcpyDtoHAsync`.
pub extern "C" fn device_to_host(to: Handle, from: CuDevicePtr, bytes: usize) -> CuResult {
    answer(|| copy(End::Host(to as u64), End::Device(from.0), bytes as u64))
}

/// `cuMemcpyDtoD`, `cuMemcpyDtoDAsync`.
pub extern "C" fn device_to_device(to: CuDevicePtr, from: CuDevicePtr, bytes: usize) -> CuResult {
    answer(|| copy(End::Device(to.0), End::Device(from.0), bytes as u64))
}

/// `cuMemcpyPeer`, `cuMemcpyPeerAsync`: the contexts must live.
pub extern "C" fn peer(
    to: CuDevicePtr,
    to_context: Handle,
    from: CuDevicePtr,
    from_context: Handle,
    bytes: usize,
) -> CuResult {
    answer(|| {
        {
            let mut state = state()?;
            state.context(to_context)?;
            state.context(from_context)?;
        }
        copy(End::Device(to.0), End::Device(from.0), bytes as u64)
    })
}

/// `cuMemcpyBatchAsync` of CUDA 12.8 and 13.0: the parameters that differ come after these.
pub extern "C" fn batch(
    to: In<CuDevicePtr>,
    from: In<CuDevicePtr>,
    sizes: In<usize>,
    count: usize,
) -> CuResult {
    answer(|| {
        let (to, from) = (to.list(count)?, from.list(count)?);
        for ((to, from), bytes) in to.into_iter().zip(from).zip(sizes.list(count)?) {
            copy(End::Unified(to.0), End::Unified(from.0), bytes as u64)?;
        }
        Ok(())
    })
}

//! Pinned host memory.

use crate::ffi::{Answer, CuError, Handle, Out, require};
use crate::model::state::state;
use gpumem_cuda_abi::CuDevicePtr;

/// `cuMemHostAlloc`. An allocation of 0 bytes returns null.
pub extern "C" fn host_alloc(out: Out<usize>, bytes: usize, flags: u32) -> Answer {
    require(!out.is_null() && flags & !7 == 0)?;
    let mut state = state()?;
    let current = state.current()?;
    state.unsafe_call()?;
    if bytes == 0 {
        return out.put(0);
    }
    out.put(state.allocate_host(current, bytes as u64, flags)? as usize)
}

/// `cuMemAllocHost`.
pub extern "C" fn alloc_host(out: Out<usize>, bytes: usize) -> Answer {
    host_alloc(out, bytes, 0)
}

/// `cuMemFreeHost`.
pub extern "C" fn free_host(pointer: Handle) -> Answer {
    let mut state = state()?;
    state.bound()?;
    state.unsafe_call()?;
    state.free_host(pointer as u64)
}

/// `cuMemHostRegister`.
pub extern "C" fn register(pointer: Handle, bytes: usize, flags: u32) -> Answer {
    require(flags & !15 == 0)?;
    let mut state = state()?;
    let current = state.current()?;
    state.register_host(current, pointer as u64, bytes as u64, flags)
}

/// `cuMemHostUnregister`.
pub extern "C" fn unregister(pointer: Handle) -> Answer {
    let mut state = state()?;
    state.bound()?;
    state.unregister_host(pointer as u64)
}

/// `cuMemHostGetDevicePointer`: one address space for both sides.
pub extern "C" fn get_device_pointer(out: Out<CuDevicePtr>, pointer: Handle, flags: u32) -> Answer {
    require(flags == 0)?;
    let state = state()?;
    state.bound()?;
    let found = state.memory.holding(pointer as u64);
    require(found.is_some_and(|allocation| allocation.is_host()))?;
    out.put(CuDevicePtr(pointer as u64))
}

/// `cuMemHostGetFlags`.
pub extern "C" fn get_flags(flags: Out<u32>, pointer: Handle) -> Answer {
    let state = state()?;
    state.bound()?;
    let found = state.memory.holding(pointer as u64);
    let found = found.filter(|allocation| allocation.is_host());
    flags.put(found.ok_or(CuError::INVALID_VALUE)?.flags)
}

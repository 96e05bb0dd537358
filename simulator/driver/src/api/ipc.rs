//! Memory shared between processes.

use crate::ffi::{Answer, CuError, Out, require};
use crate::model::ipc::Ticket;
use crate::model::state::state;
use gpumem_cuda_abi::{CuDevicePtr, CuIpcMemHandle};

/// `cuIpcGetMemHandle`.
pub extern "C" fn get_handle(out: Out<CuIpcMemHandle>, pointer: CuDevicePtr) -> Answer {
    require(!out.is_null())?;
    let mut state = state()?;
    state.bound()?;
    out.put(state.share(pointer.0)?.to_handle())
}

/// `cuIpcOpenMemHandle`: the handle is passed by value. The only flag is `LAZY_ENABLE_PEER_ACCESS`.
pub extern "C" fn open_handle(out: Out<CuDevicePtr>, handle: CuIpcMemHandle, flags: u32) -> Answer {
    require(!out.is_null() && flags == 1)?;
    let ticket = Ticket::from_handle(&handle).ok_or(CuError::INVALID_VALUE)?;
    let mut state = state()?;
    let current = state.current()?;
    out.put(CuDevicePtr(state.open_shared(current, ticket)?))
}

/// `cuIpcCloseMemHandle`.
pub extern "C" fn close_handle(pointer: CuDevicePtr) -> Answer {
    let mut state = state()?;
    state.bound()?;
    state.close_shared(pointer.0)
}

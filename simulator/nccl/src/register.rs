//! Memory of `ncclMemAlloc`, registered buffers, windows.

use crate::comm::with;
use crate::memory::{Block, FILE_DESCRIPTOR, Within, current};
use crate::result::{NcclResult, cuda, put, require, result};
use crate::settings::Settings;
use gpumem_sim_client::cu;
use gpumem_sim_client::ffi::{Address, Handle, Out};
use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

fn blocks() -> MutexGuard<'static, HashMap<Address, Block>> {
    static ALL: LazyLock<Mutex<HashMap<Address, Block>>> = LazyLock::new(Mutex::default);
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What was registered: buffers and windows, by handle.
#[derive(Clone, Copy, Debug)]
struct Registered {
    comm: Handle,
    buffer: Address,
}

fn registered() -> MutexGuard<'static, HashMap<Handle, Registered>> {
    static ALL: LazyLock<Mutex<HashMap<Handle, Registered>>> = LazyLock::new(Mutex::default);
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `ncclMemAlloc`: whole pages of `cuMemCreate`, or `cuMemAlloc` if that is not used.
pub fn allocate(place: Out<Address>, bytes: usize) -> NcclResult {
    result((|| {
        require(!place.is_null() && bytes > 0)?;
        let (context, device) = cuda(current())?;
        let _within = cuda(Within::context(context))?;
        let setup = Settings::get().setup(1, None, device, &Default::default())?;
        let block = match setup.cumem {
            true => Block::mapped(bytes, device, FILE_DESCRIPTOR),
            false => Block::plain(bytes),
        };
        let block = cuda(block)?;
        put(place, block.address)?;
        blocks().insert(block.address, block);
        Ok(())
    })())
}

/// `ncclMemFree`.
pub fn free(address: Address) -> NcclResult {
    let found = blocks().remove(&address);
    result(match found {
        Some(block) => {
            block.free();
            Ok(())
        }
        None if address == 0 => Ok(()),
        None => cuda(cu::cuMemFree(address)),
    })
}

fn register(comm: Handle, buffer: Address, place: Out<Handle>) -> Result<(), NcclResult> {
    require(!place.is_null() && buffer != 0)?;
    // Each handle points to its own byte, so that live registrations are unique.
    let handle = Box::into_raw(Box::new(0_u8)) as Handle;
    registered().insert(handle, Registered { comm, buffer });
    put(place, handle)
}

/// `ncclCommRegister`: the buffer belongs to the program, and needs no more memory.
pub fn register_buffer(
    comm: Handle,
    buffer: Address,
    _bytes: usize,
    place: Out<Handle>,
) -> NcclResult {
    result(with(comm, |_| Ok(())).and_then(|()| register(comm, buffer, place)))
}

/// `ncclCommWindowRegister`.
pub fn register_window(
    comm: Handle,
    buffer: Address,
    _bytes: usize,
    place: Out<Handle>,
    _flags: i32,
) -> NcclResult {
    result(with(comm, |comm| comm.register_window()).and_then(|()| register(comm, buffer, place)))
}

/// `ncclCommDeregister`, `ncclCommWindowDeregister`.
pub fn deregister(_comm: Handle, handle: Handle) -> NcclResult {
    if handle == 0 {
        return NcclResult::SUCCESS;
    }
    if registered().remove(&handle).is_none() {
        return result(Err(NcclResult::INVALID_ARGUMENT));
    }
    // SAFETY: the handle was in the table, so it came from `register`; it is removed first, so this
    // happens once.
    drop(unsafe { Box::from_raw(handle as *mut u8) });
    NcclResult::SUCCESS
}

fn window(handle: Handle) -> Result<Registered, NcclResult> {
    let found = registered().get(&handle).copied();
    found.ok_or(NcclResult::INVALID_ARGUMENT)
}

/// `ncclWinGetUserPtr`.
pub fn window_pointer(_comm: Handle, handle: Handle, place: Out<Address>) -> NcclResult {
    result(window(handle).and_then(|window| put(place, window.buffer)))
}

/// `ncclGetPeerDevicePointer`: this rank's own pointer. Others are not accessible, for which NCCL
/// returns a null pointer.
pub fn peer_pointer(handle: Handle, offset: usize, peer: i32, place: Out<Address>) -> NcclResult {
    result((|| {
        let window = window(handle)?;
        let own = with(window.comm, |comm| Ok(comm.rank as i32))?;
        let pointer = if peer == own {
            window.buffer + offset
        } else {
            0
        };
        put(place, pointer)
    })())
}

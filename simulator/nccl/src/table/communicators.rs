//! Communicators, memory, windows, versions.

use crate::info::UniqueId;
use crate::result::{self, NcclResult};
use crate::{comm, group, info, register};
use gpumem_sim_client::exports;
use gpumem_sim_client::ffi::{Address, Handle, In, Out};
use std::ffi::c_char;

exports! {
    ncclGetVersion (version: Out<i32>) -> NcclResult = info::version;
    ncclGetUniqueId (id: Out<UniqueId>) -> NcclResult = info::unique_id;
    ncclGetErrorString (code: u32) -> *const c_char = result::error_string;
    ncclGetLastError (comm: Handle) -> *const c_char = result::last_error;
    ncclCommInitRank (comm: Out<Handle>, world: i32, id: UniqueId, rank: i32) -> NcclResult = info::init_rank;
    ncclCommInitRankConfig (comm: Out<Handle>, world: i32, id: UniqueId, rank: i32, config: Address) -> NcclResult = info::init_rank_config;
    ncclCommInitRankScalable (comm: Out<Handle>, world: i32, rank: i32, ids: i32, id: Address, config: Address) -> NcclResult = info::init_rank_scalable;
    ncclCommInitAll (comms: Address, count: i32, devices: In<i32>) -> NcclResult = info::init_all;
    ncclCommSplit (comm: Handle, color: i32, key: i32, new: Out<Handle>, config: Address) -> NcclResult = info::split;
    ncclCommShrink (comm: Handle, excluded: In<i32>, count: i32, new: Out<Handle>, config: Address, flags: i32) -> NcclResult = info::shrink;
    ncclCommGrow (comm: Handle, world: i32, id: Address, rank: i32, new: Out<Handle>, config: Address) -> NcclResult = info::grow;
    ncclCommGetUniqueId (comm: Handle, id: Out<UniqueId>) -> NcclResult = info::unique_id_of;
    ncclCommFinalize (comm: Handle) -> NcclResult = info::accepted;
    ncclCommRevoke (comm: Handle) -> NcclResult = info::accepted;
    ncclCommDestroy (comm: Handle) -> NcclResult = comm::destroy;
    ncclCommAbort (comm: Handle) -> NcclResult = comm::destroy;
    ncclCommGetAsyncError (comm: Handle, error: Out<NcclResult>) -> NcclResult = info::async_error;
    ncclCommCount (comm: Handle, count: Out<i32>) -> NcclResult = info::count;
    ncclCommUserRank (comm: Handle, rank: Out<i32>) -> NcclResult = info::user_rank;
    ncclCommCuDevice (comm: Handle, device: Out<i32>) -> NcclResult = info::device;
    ncclCommSuspend (comm: Handle, flags: i32) -> NcclResult = info::suspend;
    ncclCommResume (comm: Handle) -> NcclResult = info::resume;
    ncclCommMemStats (comm: Handle, which: u32, value: Out<u64>) -> NcclResult = info::statistics;
    ncclCommRegister (comm: Handle, buffer: Address, bytes: usize, handle: Out<Handle>) -> NcclResult = register::register_buffer;
    ncclCommDeregister (comm: Handle, handle: Handle) -> NcclResult = register::deregister;
    ncclCommWindowRegister (comm: Handle, buffer: Address, bytes: usize, window: Out<Handle>, flags: i32) -> NcclResult = register::register_window;
    ncclCommWindowDeregister (comm: Handle, window: Handle) -> NcclResult = register::deregister;
    ncclWinGetUserPtr (comm: Handle, window: Handle, pointer: Out<Address>) -> NcclResult = register::window_pointer;
    ncclGetPeerDevicePointer (window: Handle, offset: usize, peer: i32, pointer: Out<Address>) -> NcclResult = register::peer_pointer;
    ncclMemAlloc (pointer: Out<Address>, bytes: usize) -> NcclResult = register::allocate;
    ncclMemFree (pointer: Address) -> NcclResult = register::free;
    ncclGroupStart () -> NcclResult = group::start;
    ncclGroupEnd () -> NcclResult = group::end;
    ncclGroupSimulateEnd (info: Address) -> NcclResult = group::simulate_end;
    ncclRedOpCreatePreMulSum (operation: Out<u32>, scalar: Address, kind: u32, residence: u32, comm: Handle) -> NcclResult = info::create_operation;
    ncclRedOpDestroy (operation: u32, comm: Handle) -> NcclResult = info::destroy_operation;
}

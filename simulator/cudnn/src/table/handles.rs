//! Handles, versions, texts.

use crate::handle;
use crate::status::{Status, error_string, last_error_string};
use gpumem_sim_client::exports;
use gpumem_sim_client::ffi::{Address, Handle, Out};
use std::ffi::c_char;

/// `void`.
type Nothing = ();

/// Message settings are accepted and have no effect.
fn accepted() -> Status {
    Status::SUCCESS
}

exports! {
    cudnnCreate (handle: Out<Handle>) -> Status = handle::create;
    cudnnDestroy (handle: Handle) -> Status = handle::destroy;
    cudnnSetStream (handle: Handle, stream: Handle) -> Status = handle::set_stream;
    cudnnGetStream (handle: Handle, stream: Out<Handle>) -> Status = handle::get_stream;
    cudnnGetVersion () -> usize = handle::version;
    cudnnGetMaxDeviceVersion () -> usize = handle::max_device_version;
    cudnnGetCudartVersion () -> usize = handle::runtime_version;
    cudnnGetProperty (which: u32, value: Out<i32>) -> Status = handle::property;
    cudnnGetErrorString (status: Status) -> *const c_char = error_string;
    cudnnGetLastErrorString (place: Address, room: usize) -> Nothing = last_error_string;
    cudnnSetCallback () -> Status = accepted;
    cudnnGraphVersionCheck () -> Status = handle::version_check;
    cudnnOpsVersionCheck () -> Status = handle::version_check;
    cudnnCnnVersionCheck () -> Status = handle::version_check;
    cudnnAdvVersionCheck () -> Status = handle::version_check;
}

//! The backend API.

use crate::backend;
use crate::status::Status;
use gpumem_sim_client::exports;
use gpumem_sim_client::ffi::{Address, Handle, Out};

exports! {
    cudnnBackendCreateDescriptor (kind: u32, descriptor: Out<Handle>) -> Status = backend::create;
    cudnnBackendDestroyDescriptor (descriptor: Handle) -> Status = backend::destroy;
    cudnnBackendInitialize (descriptor: Handle) -> Status = backend::initialize;
    cudnnBackendFinalize (descriptor: Handle) -> Status = backend::finalize;
    cudnnBackendSetAttribute (descriptor: Handle, attribute: u32, element: u32, elements: i64, from: Address) -> Status = backend::set_attribute;
    cudnnBackendGetAttribute (descriptor: Handle, attribute: u32, element: u32, wanted: i64, told: Out<i64>, to: Address) -> Status = backend::get_attribute;
    cudnnBackendExecute (handle: Handle, plan: Handle, pack: Handle) -> Status = backend::execute;
    cudnnGetExecutionPlanWorkspaceSize (handle: Handle, plan: Handle, pack: Handle, bytes: Out<usize>) -> Status = backend::plan_workspace;
}

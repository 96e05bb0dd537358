//! Stream and event functions that differ from the driver's.

use gpumem_sim_client::cu;
use gpumem_sim_client::ffi::{Address, Answer, Handle, Out};

/// `cudaStreamPerThread`.
pub const PER_THREAD_STREAM: Handle = 2;

/// `cudaStreamCreate`.
pub fn create(stream: Out<Handle>) -> Answer {
    cu::cuStreamCreate(stream, 0)
}

/// `cudaEventCreate`.
pub fn create_event(event: Out<Handle>) -> Answer {
    cu::cuEventCreate(event, 0)
}

/// `cudaLaunchHostFunc_v2`: the driver ignores the wait mode.
pub fn launch_host(stream: Handle, function: Address, data: Address, _mode: u32) -> Answer {
    cu::cuLaunchHostFunc(stream, function, data)
}

/// `cudaGraphConditionalHandleCreate`: in the current context.
pub fn create_conditional(conditional: Out<u64>, graph: Handle, first: u32, flags: u32) -> Answer {
    let context = crate::thread::bound().context;
    cu::cuGraphConditionalHandleCreate(conditional, graph, context, first, flags)
}

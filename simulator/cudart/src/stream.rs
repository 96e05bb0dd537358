//! Streams and events: what differs from the driver's functions.

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

/// `cudaLaunchHostFunc_v2`: how it waits makes no difference to the driver.
pub fn launch_host(stream: Handle, function: Address, data: Address, _mode: u32) -> Answer {
    cu::cuLaunchHostFunc(stream, function, data)
}

/// `cudaGraphConditionalHandleCreate`: of the current context.
pub fn create_conditional(conditional: Out<u64>, graph: Handle, first: u32, flags: u32) -> Answer {
    let context = crate::thread::bound().context;
    cu::cuGraphConditionalHandleCreate(conditional, graph, context, first, flags)
}

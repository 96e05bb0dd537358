//! The runtime's state of each thread: its last error, its device, its pending launch.

use crate::bound::Bound;
use gpumem_cuda_abi::{CudaError, Dim3};
use gpumem_sim_client::ffi::{Answer, Handle};
use std::cell::{Cell, RefCell};

/// A launch that compiled code has configured but not started yet.
#[derive(Clone, Copy, Debug)]
pub struct Configuration {
    /// Blocks.
    pub grid: Dim3,
    /// Threads of a block.
    pub block: Dim3,
    /// Dynamic shared memory of a block.
    pub shared_bytes: usize,
    /// The stream.
    pub stream: Handle,
}

thread_local! {
    static LAST_ERROR: Cell<u32> = const { Cell::new(0) };
    static DEVICE: Cell<i32> = const { Cell::new(0) };
    static CONTEXT: Cell<Bound> = const { Cell::new(Bound::NOTHING) };
    static CONFIGURATIONS: RefCell<Vec<Configuration>> = const { RefCell::new(Vec::new()) };
}

/// The body of every runtime function: an error is returned and stored.
pub fn answer(inside: impl FnOnce() -> Answer) -> CudaError {
    match inside() {
        Ok(()) => CudaError::SUCCESS,
        Err(error) => {
            LAST_ERROR.set(error.0);
            error
        }
    }
}

/// The last error of this thread.
pub fn peek_last_error() -> CudaError {
    CudaError(LAST_ERROR.get())
}

/// The last error of this thread, which is cleared.
pub fn take_last_error() -> CudaError {
    CudaError(LAST_ERROR.replace(0))
}

/// The device that this thread has selected.
pub fn device() -> i32 {
    DEVICE.get()
}

/// Selects the device.
pub fn set_device(device: i32) {
    DEVICE.set(device);
}

/// The context that the runtime last saw or made current.
pub fn bound() -> Bound {
    CONTEXT.get()
}

/// Stores the context.
pub fn set_bound(bound: Bound) {
    CONTEXT.set(bound);
}

/// Keeps a configuration for the launch that follows. In a thread that is ending the configuration
/// is lost, and the launch fails.
pub fn push_configuration(configuration: Configuration) {
    let _ = CONFIGURATIONS.try_with(|all| all.borrow_mut().push(configuration));
}

/// Removes and returns the newest configuration.
pub fn pop_configuration() -> Option<Configuration> {
    CONFIGURATIONS
        .try_with(|all| all.borrow_mut().pop())
        .ok()
        .flatten()
}

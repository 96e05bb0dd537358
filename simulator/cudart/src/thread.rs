//! What the runtime keeps for each thread: its last error, its device, its pending launch.

use crate::bound::Bound;
use gpumem_cuda_abi::{CudaError, Dim3};
use gpumem_sim_client::ffi::{Answer, Handle};
use std::cell::{Cell, RefCell};

/// A launch that the compiler's code has configured and not yet made.
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

/// The inside of every runtime function: an error is returned, and remembered.
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

/// The last error of this thread, which is then forgotten.
pub fn take_last_error() -> CudaError {
    CudaError(LAST_ERROR.replace(0))
}

/// The device that this thread has chosen.
pub fn device() -> i32 {
    DEVICE.get()
}

/// Chooses it.
pub fn set_device(device: i32) {
    DEVICE.set(device);
}

/// The context that the runtime saw or made current last.
pub fn bound() -> Bound {
    CONTEXT.get()
}

/// Remembers it.
pub fn set_bound(bound: Bound) {
    CONTEXT.set(bound);
}

/// Keeps a configuration for the launch that follows. In a thread that is ending it is lost, and
/// the launch fails.
pub fn push_configuration(configuration: Configuration) {
    let _ = CONFIGURATIONS.try_with(|all| all.borrow_mut().push(configuration));
}

/// The newest configuration, taken.
pub fn pop_configuration() -> Option<Configuration> {
    CONFIGURATIONS
        .try_with(|all| all.borrow_mut().pop())
        .ok()
        .flatten()
}

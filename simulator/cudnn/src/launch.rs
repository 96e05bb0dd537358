//! What a call that computes does: one launch on its handle's stream.
//!
//! The launch goes through the driver, so a capture gets a kernel node, a stream that may not be
//! used gives its error, and the first launch in a context loads a module (2 MiB unless
//! `GPUMEM_SIM_MODULE_BYTES` says otherwise). NVIDIA's library has many more modules; what they
//! cost is not modelled.

use crate::handle;
use crate::status::{Done, Status, status};
use gpumem_cuda_abi::CudaError;
use gpumem_sim_client::cu;
use gpumem_sim_client::ffi::{Address, Answer, Handle, Out, Text};
use std::sync::{Mutex, OnceLock, PoisonError};

/// What stands for code: the simulated driver never looks at it.
static CODE: [u8; 8] = *b"simcudnn";

/// The kernel, from the driver's library of it that lives as long as the process.
fn kernel() -> Answer<Handle> {
    static KERNEL: Mutex<Option<Handle>> = Mutex::new(None);
    let mut known = KERNEL.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(kernel) = *known {
        return Ok(kernel);
    }
    let (mut library, mut kernel) = (0, 0);
    let code = CODE.as_ptr() as Address;
    cu::cuLibraryLoadData(Out::to(&mut library), code, 0, 0, 0, 0, 0, 0)?;
    let name = Text::constant(c"cudnn_kernel");
    cu::cuLibraryGetKernel(Out::to(&mut kernel), library, name)?;
    *known = Some(kernel);
    Ok(kernel)
}

/// Launches on the stream of a live handle.
///
/// # Errors
/// `BAD_PARAM` if there is no such handle; else what the driver's refusal amounts to.
pub fn launch(handle: Handle) -> Done {
    let stream = handle::stream(handle)?;
    let launched =
        kernel().and_then(|kernel| cu::cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, 0, 0));
    launched.map_err(|error| match error {
        CudaError::MEMORY_ALLOCATION => Status::INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED,
        _ => Status::EXECUTION_FAILED_CUDA_DRIVER,
    })
}

/// Every function that computes and gives nothing to the host: its first parameter is the handle.
pub fn compute(handle: Handle) -> Status {
    status(launch(handle))
}

/// Makes events seem that much later: what was just executed is slow. No time passes.
pub fn take_time(nanoseconds: u64) {
    type TakeTime = extern "C" fn(u64);
    static FUNCTION: OnceLock<Option<TakeTime>> = OnceLock::new();
    let find = || {
        // SAFETY: a constant, terminated name. The driver is open already, and stays open.
        let driver =
            unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD) };
        if driver.is_null() {
            return None;
        }
        // SAFETY: a live handle and a constant, terminated name.
        let found = unsafe { libc::dlsym(driver, c"gpumem_sim_take_time".as_ptr()) };
        // SAFETY: the simulated driver gives the function of this name this signature.
        (!found.is_null())
            .then(|| unsafe { std::mem::transmute::<*mut libc::c_void, TakeTime>(found) })
    };
    if let Some(function) = FUNCTION.get_or_init(find) {
        function(nanoseconds);
    }
}

//! The body of a call that computes: one launch on its handle's stream.
//!
//! The launch goes through the driver, so a capture gets a kernel node, an invalid stream returns
//! its error, and the first launch in a context loads a module (2 MiB by default, see
//! `GPUMEM_SIM_MODULE_BYTES`). NVIDIA's library has many more modules, whose memory is not
//! modelled.

use crate::handle;
use crate::status::{Done, Status, status};
use gpumem_cuda_abi::CudaError;
use gpumem_sim_client::cu;
use gpumem_sim_client::ffi::{Address, Answer, Handle, Out, Text};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Replaces the code, which the simulated driver does not read.
static CODE: [u8; 8] = *b"simcudnn";

/// The kernel, from a library that stays loaded until the process ends.
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
/// `BAD_PARAM` for an unknown handle; else the status for the driver's error.
pub fn launch(handle: Handle) -> Done {
    let stream = handle::stream(handle)?;
    let launched =
        kernel().and_then(|kernel| cu::cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, 0, 0));
    launched.map_err(|error| match error {
        CudaError::MEMORY_ALLOCATION => Status::INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED,
        _ => Status::EXECUTION_FAILED_CUDA_DRIVER,
    })
}

/// Every function that computes and returns nothing to the host. Its first parameter is the handle.
pub fn compute(handle: Handle) -> Status {
    status(launch(handle))
}

/// Delays later events, as after a slow execution. No time passes.
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

//! Calls that take memory implicitly and ran out of it: code of kernels, their stacks, contexts.
//!
//! Failures in functions without hooks (a launch, a stream, an event) become known once the program queries the
//! text of the error, which frameworks do to raise it.

use core::ffi::{c_char, c_int};

use gpumem_capture::{DeviceOrdinal, EventFlags, Level};
use gpumem_cuda_abi::{CuResult, CudaError};

use crate::call::Call;
use crate::failed::Failed;
use crate::thread::Thread;
use crate::{driver, record, thread};

/// The result code for out of memory, the same in both APIs.
const OUT_OF_MEMORY: c_int = 2;

/// Records that a call failed with out of memory. `takes` is 0 if the required size is unknown.
pub(super) fn refused(
    thread: &Thread,
    call: &Call,
    device: DeviceOrdinal,
    (of, takes): (EventFlags, u64),
) {
    record::out_of_memory(thread, failed(call, device, (of, takes), false), 0);
}

/// Called after a call that loads code: if it failed with out of memory, records the failure.
pub(super) fn loading(thread: &Thread, call: &Call, result: CuResult) {
    if result == CuResult::OUT_OF_MEMORY {
        refused(
            thread,
            call,
            driver::current_device(),
            (EventFlags::MODULE, 0),
        );
    }
}

fn failed(
    call: &Call,
    device: DeviceOrdinal,
    (of, bytes): (EventFlags, u64),
    is_told: bool,
) -> Failed {
    Failed {
        api: call.api(),
        level: Level::PHYSICAL,
        device,
        bytes,
        framework: None,
        caller: call.caller(),
        of,
        is_told,
    }
}

/// Handles a query of an error's text: it is the text of a failure only if the thread's last call failed so. Programs
/// also read the texts of all errors, or of one that they have recovered from.
fn asked(thread: &Thread, call: &Call, error: c_int) {
    if error == OUT_OF_MEMORY && thread.ran_out.take() {
        let failed = failed(call, driver::current_device(), (EventFlags::NONE, 0), true);
        record::out_of_memory(thread, failed, 1);
    }
}

/// Defines a hook of a function that returns the thread's last error. Frameworks call it after each launch, so it is not
/// accounted as a call.
macro_rules! last_error {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        entry! { Runtime Optional $name }

        $(#[$doc])*
        ///
        /// # Safety
        /// The requirements of the real function.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case)]
        pub unsafe extern "C-unwind" fn $name() -> CudaError {
            let address = $name::HOOK.real();
            if address == 0 {
                return CudaError::INITIALIZATION_ERROR;
            }
            type Real = unsafe extern "C-unwind" fn() -> CudaError;
            // SAFETY: the address is that of the function of this name, whose type this is.
            let result = unsafe { core::mem::transmute::<usize, Real>(address)() };
            if result == CudaError::MEMORY_ALLOCATION {
                thread::with(|thread| thread.ran_out.set(true));
            }
            result
        }
    )*};
}

last_error! {
    /// The last error of the runtime on this thread, which is cleared.
    cudaGetLastError;
    /// The last error of the runtime on this thread.
    cudaPeekAtLastError;
}

hook! {
    /// The text of an error of the runtime.
    Runtime Optional
    fn cudaGetErrorString(error: c_int) -> *const c_char;
    missing core::ptr::null();
    with call, thread, result, held;
    before { asked(thread, &call, error) }
}

hook! {
    /// The text of an error of the driver.
    Driver Optional
    fn cuGetErrorString(error: c_int, text: *mut *const c_char) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    with call, thread, result, held;
    before { asked(thread, &call, error) }
}

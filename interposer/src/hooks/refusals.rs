//! Calls that take memory implicitly and ran out of it: code of kernels, their stacks, contexts.
//!
//! Failures in functions without hooks (a launch, a stream, an event) become known once the program queries the
//! text of the error, which frameworks do to raise it.

use core::ffi::{c_char, c_int};

use gpumem_capture::{DeviceOrdinal, EventFlags, Level};
use gpumem_cuda_abi::CuResult;

use crate::call::Call;
use crate::failed::Failed;
use crate::thread::Thread;
use crate::{driver, record};

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

/// Handles a query of an error's text.
fn asked(thread: &Thread, call: &Call, error: c_int) {
    if error == OUT_OF_MEMORY {
        let failed = failed(call, driver::current_device(), (EventFlags::NONE, 0), true);
        record::out_of_memory(thread, failed, 1);
    }
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

//! Calls that take memory without asking for bytes, and had none: code of kernels, their stacks, contexts.
//!
//! Of what no hook sees (a launch, a stream, an event) it is known once the program asks for the text of the error,
//! which frameworks do to raise it.

use core::ffi::{c_char, c_int};

use gpumem_capture::{DeviceOrdinal, EventFlags, Level};
use gpumem_cuda_abi::CuResult;

use crate::call::Call;
use crate::failed::Failed;
use crate::thread::Thread;
use crate::{driver, record};

/// The result code for want of memory, the same in both APIs.
const OUT_OF_MEMORY: c_int = 2;

/// A call failed for want of memory. `takes` is 0 where it is not known how much it needs.
pub(super) fn refused(
    thread: &Thread,
    call: &Call,
    device: DeviceOrdinal,
    (of, takes): (EventFlags, u64),
) {
    record::out_of_memory(thread, failed(call, device, (of, takes), false), 0);
}

/// After a call that was to load code: if it failed for want of memory, that is recorded.
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

/// The program asks what an error means.
fn asked(thread: &Thread, call: &Call, error: c_int) {
    if error == OUT_OF_MEMORY {
        let failed = failed(call, driver::current_device(), (EventFlags::NONE, 0), true);
        record::out_of_memory(thread, failed, 1);
    }
}

hook! {
    /// What an error of the runtime means.
    Runtime Optional
    fn cudaGetErrorString(error: c_int) -> *const c_char;
    missing core::ptr::null();
    with call, thread, result, held;
    before { asked(thread, &call, error) }
}

hook! {
    /// What an error of the driver means.
    Driver Optional
    fn cuGetErrorString(error: c_int, text: *mut *const c_char) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    with call, thread, result, held;
    before { asked(thread, &call, error) }
}

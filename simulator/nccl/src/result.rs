//! `ncclResult_t`, and its texts.

use gpumem_sim_client::ffi::{Address, Answer, Out};
use std::ffi::{CStr, c_char};
use std::sync::atomic::{AtomicU32, Ordering};

/// `ncclResult_t`.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct NcclResult(pub u32);

impl NcclResult {
    /// Done.
    pub const SUCCESS: Self = Self(0);
    /// The driver failed.
    pub const UNHANDLED_CUDA_ERROR: Self = Self(1);
    /// A parameter is wrong.
    pub const INVALID_ARGUMENT: Self = Self(4);
    /// Not allowed now, or not simulated.
    pub const INVALID_USAGE: Self = Self(5);
}

/// NCCL's texts for its codes.
const WORDS: [&CStr; 9] = [
    c"no error",
    c"unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
    c"unhandled system error (run with NCCL_DEBUG=INFO for details)",
    c"internal error - please report this issue to the NCCL developers",
    c"invalid argument (run with NCCL_DEBUG=WARN for details)",
    c"invalid usage (run with NCCL_DEBUG=WARN for details)",
    c"remote process exited or there was a network error",
    c"NCCL operation in progress",
    c"operation timed out",
];

/// The last failure of any thread.
static LAST: AtomicU32 = AtomicU32::new(0);

/// The result of a function's body; a failure is stored.
pub fn result(answer: Result<(), NcclResult>) -> NcclResult {
    match answer {
        Ok(()) => NcclResult::SUCCESS,
        Err(result) => {
            LAST.store(result.0, Ordering::Relaxed);
            result
        }
    }
}

/// Converts an error of the driver.
pub fn cuda<T>(answer: Answer<T>) -> Result<T, NcclResult> {
    answer.map_err(|_| NcclResult::UNHANDLED_CUDA_ERROR)
}

/// Writes a result; a null pointer is an invalid argument.
pub fn put<T>(place: Out<T>, value: T) -> Result<(), NcclResult> {
    place.put(value).map_err(|_| NcclResult::INVALID_ARGUMENT)
}

/// An invalid argument unless the condition holds.
pub fn require(condition: bool) -> Result<(), NcclResult> {
    if condition {
        Ok(())
    } else {
        Err(NcclResult::INVALID_ARGUMENT)
    }
}

/// `ncclGetErrorString`.
pub fn error_string(code: u32) -> *const c_char {
    let words = WORDS.get(code as usize);
    words.unwrap_or(&c"unknown result code").as_ptr()
}

/// `ncclGetLastError`.
pub fn last_error(_comm: Address) -> *const c_char {
    match LAST.load(Ordering::Relaxed) {
        0 => c"".as_ptr(),
        1 => c"gpumem simulator: the simulated card has no room for NCCL's memory, or the driver failed"
            .as_ptr(),
        code => error_string(code),
    }
}

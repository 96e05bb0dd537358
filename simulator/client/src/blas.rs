//! Types and functions that cuBLAS and cuBLASLt share.

use crate::ffi::{Answer, Out};
use crate::release;
use std::ffi::{CStr, c_char};

/// `cublasStatus_t`.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Status(pub u32);

impl Status {
    /// Done.
    pub const SUCCESS: Self = Self(0);
    /// No such handle.
    pub const NOT_INITIALIZED: Self = Self(1);
    /// Out of memory.
    pub const ALLOC_FAILED: Self = Self(3);
    /// A parameter is wrong.
    pub const INVALID_VALUE: Self = Self(7);
    /// A copy failed.
    pub const MAPPING_ERROR: Self = Self(11);
    /// The driver failed.
    pub const EXECUTION_FAILED: Self = Self(13);
    /// Not simulated.
    pub const NOT_SUPPORTED: Self = Self(15);
}

/// Codes and their names, by code.
const NAMES: &[(u32, &CStr)] = &[
    (0, c"CUBLAS_STATUS_SUCCESS"),
    (1, c"CUBLAS_STATUS_NOT_INITIALIZED"),
    (3, c"CUBLAS_STATUS_ALLOC_FAILED"),
    (7, c"CUBLAS_STATUS_INVALID_VALUE"),
    (8, c"CUBLAS_STATUS_ARCH_MISMATCH"),
    (11, c"CUBLAS_STATUS_MAPPING_ERROR"),
    (13, c"CUBLAS_STATUS_EXECUTION_FAILED"),
    (14, c"CUBLAS_STATUS_INTERNAL_ERROR"),
    (15, c"CUBLAS_STATUS_NOT_SUPPORTED"),
    (16, c"CUBLAS_STATUS_LICENSE_ERROR"),
];

/// The status of a function's body.
pub fn status(answer: Result<(), Status>) -> Status {
    match answer {
        Ok(()) => Status::SUCCESS,
        Err(status) => status,
    }
}

/// Converts a result about a caller's pointer: a null pointer is an invalid value.
///
/// # Errors
/// [`Status::INVALID_VALUE`].
pub fn pointer<T>(answer: Answer<T>) -> Result<T, Status> {
    answer.map_err(|_| Status::INVALID_VALUE)
}

/// `cublasGetStatusName`, `cublasLtGetStatusName`.
pub fn status_name(status: Status) -> *const c_char {
    let found = NAMES.iter().find(|(code, _)| *code == status.0);
    found
        .map_or(c"CUBLAS_STATUS_UNKNOWN", |(_, name)| name)
        .as_ptr()
}

/// The version, as three numbers: 13.4.1, which PyTorch 2.15 brings, or 12.8.4, which 2.9 brings.
fn numbers() -> [i32; 3] {
    release::of([12, 8, 4], [13, 4, 1])
}

/// The version as one number.
pub fn version() -> i32 {
    let [major, minor, patch] = numbers();
    major * 10_000 + minor * 100 + patch
}

/// The runtime inside the real library: 13.2 or 12.8.
pub fn runtime_version() -> usize {
    release::of(12080, 13020)
}

/// `cublasGetProperty`, `cublasLtGetProperty`: major, minor, patch.
pub fn property(which: u32, value: Out<i32>) -> Status {
    status(match numbers().get(which as usize) {
        Some(number) => pointer(value.put(*number)),
        None => Err(Status::INVALID_VALUE),
    })
}

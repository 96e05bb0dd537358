//! `cusolverStatus_t`.

use gpumem_sim_client::ffi::Out;

/// `cusolverStatus_t`.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct SolverStatus(pub u32);

impl SolverStatus {
    /// Done.
    pub const SUCCESS: Self = Self(0);
    /// No such handle, or no driver.
    pub const NOT_INITIALIZED: Self = Self(1);
    /// A parameter is wrong.
    pub const INVALID_VALUE: Self = Self(3);
    /// The driver failed.
    pub const EXECUTION_FAILED: Self = Self(6);
    /// Not simulated.
    pub const NOT_SUPPORTED: Self = Self(9);
}

/// The status of a function's body.
pub fn status(answer: Result<(), SolverStatus>) -> SolverStatus {
    match answer {
        Ok(()) => SolverStatus::SUCCESS,
        Err(status) => status,
    }
}

/// Writes a result; a null pointer is an invalid value.
pub fn put<T>(place: Out<T>, value: T) -> Result<(), SolverStatus> {
    place.put(value).map_err(|_| SolverStatus::INVALID_VALUE)
}

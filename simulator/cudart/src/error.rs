//! Errors: the last one, and the names and texts of all.

use crate::error_names::{ERRORS, Row};
use crate::thread;
use gpumem_cuda_abi::CudaError;
use std::ffi::{CStr, c_char};

const UNRECOGNIZED: &CStr = c"unrecognized error code";

fn row(error: CudaError) -> Option<&'static Row> {
    ERRORS.iter().find(|(code, ..)| *code == error.0)
}

/// `cudaGetErrorName`.
pub fn name(error: CudaError) -> *const c_char {
    row(error)
        .map_or(UNRECOGNIZED, |(_, name, _)| name)
        .as_ptr()
}

/// `cudaGetErrorString`.
pub fn text(error: CudaError) -> *const c_char {
    row(error)
        .map_or(UNRECOGNIZED, |(_, _, text)| text)
        .as_ptr()
}

/// `cudaGetLastError`: returns the error and clears it.
pub fn take() -> CudaError {
    thread::take_last_error()
}

/// `cudaPeekAtLastError`.
pub fn peek() -> CudaError {
    thread::peek_last_error()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_ascend_and_agree_with_the_shared_names() {
        assert!(ERRORS.windows(2).all(|pair| pair[0].0 < pair[1].0));
        for (code, name, _) in ERRORS {
            if let Some(shared) = CudaError(*code).name() {
                assert_eq!(shared.as_bytes(), name.to_bytes());
            }
        }
    }

    #[test]
    fn the_last_error_is_taken_once() {
        let failed = thread::answer(|| Err(CudaError::MEMORY_ALLOCATION));
        assert_eq!(failed, CudaError::MEMORY_ALLOCATION);
        assert_eq!(thread::answer(|| Ok(())), CudaError::SUCCESS);
        assert_eq!(peek(), CudaError::MEMORY_ALLOCATION);
        assert_eq!(take(), CudaError::MEMORY_ALLOCATION);
        assert_eq!(take(), CudaError::SUCCESS);
    }
}

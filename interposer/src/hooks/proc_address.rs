//! `cuGetProcAddress`: not an event, but the way by which newer clients reach the driver.

use core::ffi::{c_char, c_int, c_void};

use gpumem_cuda_abi::{CuProcAddressStatus, CuResult};

use crate::symbols::proc_address::substitute;

hook! {
    /// CUDA 11.3's form.
    1 Driver Optional
    fn cuGetProcAddress(
        symbol: *const c_char,
        function: *mut *mut c_void,
        version: c_int,
        flags: u64,
    ) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    with call, thread, result, held;
    before {}
    after {
        // SAFETY: the caller's arguments, which the driver has just used in the same way.
        unsafe { substitute(result, symbol, function, version, flags) };
    }
}

hook! {
    /// CUDA 12's form, with a status.
    2 Driver Required
    fn cuGetProcAddress_v2(
        symbol: *const c_char,
        function: *mut *mut c_void,
        version: c_int,
        flags: u64,
        status: *mut CuProcAddressStatus,
    ) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    with call, thread, result, held;
    before {}
    after {
        // SAFETY: the caller's arguments, which the driver has just used in the same way.
        unsafe { substitute(result, symbol, function, version, flags) };
    }
}

//! `cuGetProcAddress`: not an event, but the function by which newer clients get the driver's
//! functions.
//!
//! The exported functions only store the caller and jump to the body: the account names the library
//! that requested the function.

use core::ffi::{c_char, c_int, c_void};

use gpumem_cuda_abi::{CuProcAddressStatus, CuResult};

use crate::caller::naked_code;
use crate::resolve::proc_address::{Request, substitute};
use crate::thread;

type First = unsafe extern "C-unwind" fn(*const c_char, *mut *mut c_void, c_int, u64) -> CuResult;
type Second = unsafe extern "C-unwind" fn(
    *const c_char,
    *mut *mut c_void,
    c_int,
    u64,
    *mut CuProcAddressStatus,
) -> CuResult;

entry!(Driver Optional cuGetProcAddress);
entry!(Driver Required cuGetProcAddress_v2);

/// CUDA 11.3's form.
///
/// # Safety
/// As the driver's function: the arguments go to it unchanged.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn cuGetProcAddress(
    symbol: *const c_char,
    function: *mut *mut c_void,
    version: c_int,
    flags: u64,
) -> CuResult {
    naked_code!("mov r8, [rsp]", "jmp {go_on}"; go_on = sym first_form)
}

/// CUDA 12's form, with a status.
///
/// # Safety
/// As the driver's function: the arguments go to it unchanged.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn cuGetProcAddress_v2(
    symbol: *const c_char,
    function: *mut *mut c_void,
    version: c_int,
    flags: u64,
    status: *mut CuProcAddressStatus,
) -> CuResult {
    naked_code!("mov r9, [rsp]", "jmp {go_on}"; go_on = sym second_form)
}

unsafe extern "C-unwind" fn first_form(
    symbol: *const c_char,
    function: *mut *mut c_void,
    version: c_int,
    flags: u64,
    caller: usize,
) -> CuResult {
    cuGetProcAddress::HOOK.called(caller);
    let address = cuGetProcAddress::HOOK.real();
    if address == 0 {
        return CuResult::NOT_INITIALIZED;
    }
    // SAFETY: the address is that of the function of this name, whose type this is.
    let real: First = unsafe { core::mem::transmute(address) };
    // SAFETY: the caller's own arguments.
    let result = unsafe { real(symbol, function, version, flags) };
    let request = Request {
        symbol,
        function,
        version,
        flags,
        caller,
    };
    // SAFETY: the caller's arguments, which the driver has just used in the same way.
    let _ = thread::in_hook(|_| unsafe { substitute(result, request) });
    result
}

unsafe extern "C-unwind" fn second_form(
    symbol: *const c_char,
    function: *mut *mut c_void,
    version: c_int,
    flags: u64,
    status: *mut CuProcAddressStatus,
    caller: usize,
) -> CuResult {
    cuGetProcAddress_v2::HOOK.called(caller);
    let address = cuGetProcAddress_v2::HOOK.real();
    if address == 0 {
        return CuResult::NOT_INITIALIZED;
    }
    // SAFETY: the address is that of the function of this name, whose type this is.
    let real: Second = unsafe { core::mem::transmute(address) };
    // SAFETY: the caller's own arguments.
    let result = unsafe { real(symbol, function, version, flags, status) };
    let request = Request {
        symbol,
        function,
        version,
        flags,
        caller,
    };
    // SAFETY: the caller's arguments, which the driver has just used in the same way.
    let _ = thread::in_hook(|_| unsafe { substitute(result, request) });
    result
}

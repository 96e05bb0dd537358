//! `cuGetProcAddress` and `_v2`: calls the real function; if its result is a hooked function, the hook
//! is returned instead.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::Ordering;

use gpumem_cuda_abi::CuResult;
use gpumem_sys::loaded;

use super::libraries::{self, Home};
use super::order;
use super::real::REAL;
use super::versions::by_request;
use crate::account::{self, BoundBy};
use crate::hook::{self, Hook};

/// Reads the driver's own exports of all hooked names, once.
pub(crate) fn resolve_exports() {
    if REAL.has_exports.load(Ordering::Acquire) {
        return;
    }
    let mut any = false;
    for hook in hook::all().iter().filter(|hook| hook.is_driver()) {
        let found = libraries::find(Home::Driver, hook.name, hook.address());
        if found != 0 && found != hook.address() && !order::before_us(found) {
            hook.set_exported(found);
            any = true;
        }
    }
    REAL.has_exports.store(any, Ordering::Release);
}

/// The hook for the function at `found`, by address: the driver returns its own exports.
fn by_address(found: usize) -> Option<&'static Hook> {
    hook::all().iter().find(|hook| hook.is_exported_at(found))
}

/// Whether an exported function begins at `found`.
fn is_an_export(found: usize) -> bool {
    let info = loaded::symbol_at(found);
    !info.dli_sname.is_null() && info.dli_saddr as usize == found
}

/// A client's request.
#[derive(Clone, Copy)]
pub(crate) struct Request {
    pub(crate) symbol: *const c_char,
    pub(crate) function: *mut *mut c_void,
    pub(crate) version: c_int,
    pub(crate) flags: u64,
    /// An address in the client.
    pub(crate) caller: usize,
}

/// Replaces a result of the driver by the hook for it.
///
/// # Safety
/// `symbol` is null or NUL-terminated; `function` is null or writable.
pub(crate) unsafe fn substitute(result: CuResult, request: Request) {
    let Request {
        symbol: name,
        function,
        version,
        flags,
        caller,
    } = request;
    if !result.is_success() || name.is_null() || function.is_null() {
        return;
    }
    // SAFETY: checked for null; the caller promises that it is writable.
    let found = unsafe { *function } as usize;
    // A driver that calls its own exports by name gets our inner hook.
    if found == 0 || hook::all().iter().any(|hook| hook.address() == found) {
        return;
    }
    // SAFETY: checked for null; the caller promises a NUL at the end.
    let name = unsafe { CStr::from_ptr(name) }.to_bytes();
    let requested = by_request(name, version, flags);
    // The requested one first: a driver may export two forms of a function at one address.
    let by_address = || match requested.filter(|hook| hook.is_exported_at(found)) {
        Some(hook) => Some(hook),
        None => by_address(found),
    };
    resolve_exports();
    let hook = match (by_address(), requested) {
        (Some(hook), _) => hook,
        // A different export than the hooked one: a newer form, whose arguments may differ.
        (None, Some(_)) if is_an_export(found) => {
            account::unhooked();
            return;
        }
        (None, Some(hook)) => hook,
        (None, None) => return,
    };
    hook.adopt(found);
    hook::armed(hook, BoundBy::ProcAddress, caller);
    // SAFETY: as above.
    unsafe { *function = hook.address() as *mut c_void };
}

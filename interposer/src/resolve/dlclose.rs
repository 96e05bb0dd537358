//! Our `dlclose`: calls the real one, and then checks which modules are gone. After a module is
//! unloaded, its addresses have another meaning for the unwinder's rules, for known stacks, and for the hooks whose real
//! functions were there.

use core::ffi::{c_int, c_void};
use core::sync::atomic::Ordering;

use gpumem_unwind::modules;

use super::real::REAL;
use crate::hook;

/// `dlclose`, for every program under LD_PRELOAD.
///
/// # Safety
/// As `dlclose(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn dlclose(handle: *mut c_void) -> c_int {
    let address = REAL.dlclose.address();
    if address == 0 {
        return -1; // a C library without it has loaded nothing
    }
    type Real = unsafe extern "C-unwind" fn(*mut c_void) -> c_int;
    // SAFETY: the address is that of the C library's function, whose type this is.
    let real = unsafe { core::mem::transmute::<usize, Real>(address) };
    // SAFETY: the caller's own argument.
    let result = unsafe { real(handle) };
    let before = modules::generation();
    modules::look();
    if modules::generation() != before {
        hook::forget_unloaded();
        REAL.has_exports.store(false, Ordering::Release);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_unloaded_is_noticed() {
        // SAFETY: the name is NUL-terminated; the library's constructors are harmless.
        let handle = unsafe { libc::dlopen(c"libnss_compat.so.2".as_ptr(), libc::RTLD_NOW) };
        assert!(!handle.is_null());
        let before = modules::generation();
        // SAFETY: opened above, closed once.
        assert_eq!(unsafe { dlclose(handle) }, 0);
        assert!(modules::generation() > before);
    }
}

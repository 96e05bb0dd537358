//! The C library's own functions behind those that this library defines itself.

use core::ffi::{CStr, c_char, c_void};
use core::sync::atomic::{AtomicUsize, Ordering};

use super::elf;

/// Address of the C library's `dlsym`; 0 until the first use.
pub(super) static DLSYM: AtomicUsize = AtomicUsize::new(0);

type Dlsym = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;

/// The address of the C library's function `name`, looked for only once: `known` is 0 until then. 0: it has none.
pub(super) fn function(known: &AtomicUsize, name: &CStr) -> usize {
    match known.load(Ordering::Relaxed) {
        0 => {
            let found = elf::in_libc(name);
            known.store(found, Ordering::Relaxed);
            found
        }
        found => found,
    }
}

/// The real `dlsym`, called from here: `RTLD_NEXT` means "after libgpumem.so".
pub(crate) fn dlsym(handle: *mut c_void, name: &CStr) -> *mut c_void {
    match function(&DLSYM, c"dlsym") {
        0 => core::ptr::null_mut(),
        found => {
            // SAFETY: the address is that of the C library's dlsym, whose type this is.
            let real: Dlsym = unsafe { core::mem::transmute(found) };
            // SAFETY: the handle is the caller's own; the name is NUL-terminated.
            unsafe { real(handle, name.as_ptr()) }
        }
    }
}

//! The C library's own functions behind those that this library defines itself. Programs call them before any of our
//! initialisation.

use core::ffi::{CStr, c_char, c_void};
use core::sync::atomic::AtomicBool;

use gpumem_capture::Writer;
use gpumem_sys::c_library::Function;

use super::loaded_names::Names;

/// The C library's functions, and the libraries that they have loaded.
pub(super) struct Real {
    pub(super) dlsym: Function,
    pub(super) dlvsym: Function,
    pub(super) dlopen: Function,
    pub(super) dlmopen: Function,
    pub(super) dlclose: Function,
    pub(super) loaded: Names,
    /// Whether the driver's own exports of all hooked names are read.
    pub(super) has_exports: AtomicBool,
}

pub(super) static REAL: Real = Real {
    dlsym: Function::new(c"dlsym"),
    dlvsym: Function::new(c"dlvsym"),
    dlopen: Function::new(c"dlopen"),
    dlmopen: Function::new(c"dlmopen"),
    dlclose: Function::new(c"dlclose"),
    loaded: Names::new(),
    has_exports: AtomicBool::new(false),
};

type Dlsym = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;

/// Writes the notes about libraries that have not been written: one for each library.
pub(crate) fn write_loaded(writer: &'static Writer) {
    REAL.loaded.write(writer);
}

/// The real `dlsym`, called from here: `RTLD_NEXT` means "after libgpumem.so".
pub(crate) fn dlsym(handle: *mut c_void, name: &CStr) -> *mut c_void {
    match REAL.dlsym.address() {
        0 => core::ptr::null_mut(),
        found => {
            // SAFETY: the address is that of the C library's dlsym, whose type this is.
            let real: Dlsym = unsafe { core::mem::transmute(found) };
            // SAFETY: the handle is the caller's own; the name is NUL-terminated.
            unsafe { real(handle, name.as_ptr()) }
        }
    }
}

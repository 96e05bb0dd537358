//! The C library's own functions behind those that this library defines itself. Programs call them before any of our
//! initialisation.

use core::ffi::{CStr, c_char, c_void};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use gpumem_capture::Writer;

use super::elf;
use super::loaded_names::Names;

/// The addresses of the C library's functions, each 0 until its first use, and the libraries that they have loaded.
pub(super) struct Real {
    pub(super) dlsym: AtomicUsize,
    pub(super) dlvsym: AtomicUsize,
    pub(super) dlopen: AtomicUsize,
    pub(super) dlmopen: AtomicUsize,
    pub(super) dlclose: AtomicUsize,
    pub(super) loaded: Names,
    /// Whether the driver's own exports of all hooked names are read.
    pub(super) has_exports: AtomicBool,
}

pub(super) static REAL: Real = Real {
    dlsym: AtomicUsize::new(0),
    dlvsym: AtomicUsize::new(0),
    dlopen: AtomicUsize::new(0),
    dlmopen: AtomicUsize::new(0),
    dlclose: AtomicUsize::new(0),
    loaded: Names::new(),
    has_exports: AtomicBool::new(false),
};

type Dlsym = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;

/// The address of the C library's function `name`, searched for once: `known` is 0 until then. 0 if it does not have
/// the function.
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

/// Writes the notes about libraries that have not been written: one for each library.
pub(crate) fn write_loaded(writer: &'static Writer) {
    REAL.loaded.write(writer);
}

/// The real `dlsym`, called from here: `RTLD_NEXT` means "after libgpumem.so".
pub(crate) fn dlsym(handle: *mut c_void, name: &CStr) -> *mut c_void {
    match function(&REAL.dlsym, c"dlsym") {
        0 => core::ptr::null_mut(),
        found => {
            // SAFETY: the address is that of the C library's dlsym, whose type this is.
            let real: Dlsym = unsafe { core::mem::transmute(found) };
            // SAFETY: the handle is the caller's own; the name is NUL-terminated.
            unsafe { real(handle, name.as_ptr()) }
        }
    }
}

//! The C library's own functions behind those that this library defines itself. Programs call them before any of our
//! initialisation.

use core::ffi::{CStr, c_char, c_void};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use gpumem_capture::Writer;
use gpumem_sys::c_library::Function;

use super::loaded_names::Names;
use super::{elf, libraries};
use crate::thread;

/// The C library's functions, and the libraries that they have loaded.
pub(super) struct Real {
    pub(super) dlsym: Function,
    pub(super) dlvsym: Function,
    pub(super) dlopen: Function,
    pub(super) dlmopen: Function,
    pub(super) dlclose: Function,
    /// The `dlsym` of another tool after this library; 0 before the search, [`NONE`] without one.
    others: AtomicUsize,
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
    others: AtomicUsize::new(0),
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

/// There is no such function.
const NONE: usize = 1;

/// The `dlsym` of another library that is loaded with the program after this one (a tool that limits or observes CUDA,
/// for example), or 0. Without this library, the program would call it.
pub(super) fn others_dlsym() -> usize {
    match REAL.others.load(Ordering::Relaxed) {
        0 => {
            let own = dlsym_in_chain as *const () as usize;
            let found = match libraries::with_the_program_after(own, c"dlsym") {
                Some(found) if found != elf::in_libc(c"dlsym") => found,
                Some(_) => NONE,
                // Not known yet.
                None => return 0,
            };
            REAL.others.store(found, Ordering::Relaxed);
            others_dlsym()
        }
        NONE => 0,
        found => found,
    }
}

/// `dlsym` as the program would call it without this library: that of another tool, otherwise the real one. For handles
/// of libraries.
pub(super) fn dlsym_in_chain(handle: *mut c_void, name: &CStr) -> *mut c_void {
    let other = others_dlsym();
    let is_nested = other == 0 || thread::with(|thread| thread.asks_other.replace(true));
    if is_nested {
        return dlsym(handle, name);
    }
    // SAFETY: a library exports it under the name of this function.
    let function: Dlsym = unsafe { core::mem::transmute(other) };
    // SAFETY: the handle is the caller's own; the name is NUL-terminated.
    let found = unsafe { function(handle, name.as_ptr()) };
    thread::with(|thread| thread.asks_other.set(false));
    found
}

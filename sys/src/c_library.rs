//! The C library's own functions, found in the loader's list of libraries.
//!
//! A name may be bound to another library's function: one that moves clocks, a sanitizer, this recorder. Some of these
//! look the next function up when they are first called, so calling them from that look-up would not end; others are
//! not ready before the program runs, or are gone when it ends. Nothing here calls a function that has a name.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::elf;

/// The public head of `struct link_map` in <link.h>.
#[repr(C)]
struct LinkMap {
    addr: usize,
    name: *const c_char,
    dynamic: usize,
    next: *const LinkMap,
}

/// `struct r_debug` in <link.h>, up to the field that is used.
#[repr(C)]
struct Debug {
    version: c_int,
    map: *const LinkMap,
}

unsafe extern "C" {
    /// The loader's list of the libraries that the program uses.
    static _r_debug: Debug;
}

/// Whether the process's heap is the C library's: it is the only one that provides `malloc`.
#[cold]
pub fn has_heap() -> bool {
    find(c"malloc") == libc::malloc as *const () as usize
}

/// The address of the function `name` in the C library (or libdl, before glibc 2.34). 0 if it is not there.
#[cold]
pub fn find(name: &CStr) -> usize {
    // SAFETY: the loader has filled this in before it runs any library's code.
    let mut map = unsafe { (&raw const _r_debug.map).read_volatile() };
    // SAFETY: the list ends with null. The C library is one of its first entries, which stay as long as the process.
    while let Some(library) = unsafe { map.as_ref() } {
        if is_c_library(library.name) {
            // SAFETY: the library is loaded, with its dynamic segment at that address.
            let found = unsafe {
                let tables = elf::tables(library.addr, library.dynamic);
                elf::look_up(&tables, library.addr, name)
            };
            if let Some(found) = found
                && found != 0
            {
                return found;
            }
        }
        map = library.next;
    }
    0
}

fn is_c_library(path: *const c_char) -> bool {
    if path.is_null() {
        return false;
    }
    // SAFETY: the loader's names are NUL-terminated.
    let path = unsafe { CStr::from_ptr(path) }.to_bytes();
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
    name.starts_with(b"libc.so.") || name.starts_with(b"libdl.so.")
}

/// A function of the C library, searched for once.
pub struct Function {
    name: &'static CStr,
    /// 0 before the search, [`NONE`] without the function.
    address: AtomicUsize,
}

const NONE: usize = usize::MAX;

impl Function {
    /// The function of that name.
    pub const fn new(name: &'static CStr) -> Self {
        Self {
            name,
            address: AtomicUsize::new(0),
        }
    }

    /// Its address; 0 if the C library does not have it.
    #[inline]
    pub fn address(&self) -> usize {
        match self.address.load(Ordering::Relaxed) {
            0 => self.search(),
            NONE => 0,
            address => address,
        }
    }

    #[cold]
    fn search(&self) -> usize {
        let found = find(self.name);
        let known = if found == 0 { NONE } else { found };
        self.address.store(known, Ordering::Relaxed);
        found
    }
}

/// `dl_iterate_phdr(3)`.
pub(crate) type Visit = unsafe extern "C" fn(*mut libc::dl_phdr_info, usize, *mut c_void) -> c_int;

/// The C library's `dl_iterate_phdr`.
///
/// # Safety
/// As the function.
pub(crate) unsafe fn dl_iterate_phdr(visit: Visit, data: *mut c_void) {
    type Real = unsafe extern "C" fn(Visit, *mut c_void) -> c_int;
    static REAL: Function = Function::new(c"dl_iterate_phdr");
    match REAL.address() {
        // SAFETY: the caller's promise.
        0 => unsafe { libc::dl_iterate_phdr(Some(visit), data) },
        // SAFETY: the address is that of the C library's function, whose type this is; the rest is the caller's promise.
        address => unsafe { core::mem::transmute::<usize, Real>(address)(visit, data) },
    };
}

/// The C library's `clock_gettime`; without it, the system call.
pub(crate) fn clock_gettime(clock: libc::clockid_t, time: &mut libc::timespec) -> c_int {
    type Real = unsafe extern "C" fn(libc::clockid_t, *mut libc::timespec) -> c_int;
    static REAL: Function = Function::new(c"clock_gettime");
    let time = core::ptr::from_mut(time);
    match REAL.address() {
        0 => {
            let arguments = [clock as usize, time as usize, 0, 0, 0, 0];
            // SAFETY: the time is valid for writing.
            (unsafe { crate::raw::call(libc::SYS_clock_gettime, arguments) }) as c_int
        }
        // SAFETY: the address is that of the C library's function, whose type this is; the time is valid for writing.
        address => unsafe { core::mem::transmute::<usize, Real>(address)(clock, time) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_functions_are_found_and_others_are_not() {
        assert_eq!(find(c"getpid"), libc::getpid as *const () as usize);
        assert_ne!(find(c"dlvsym"), 0);
        assert_eq!(find(c"no_such_function_anywhere"), 0);
        // A resolver is no function.
        assert_eq!(find(c"gettimeofday"), 0);
        static MISSING: Function = Function::new(c"no_such_function_anywhere");
        assert!(MISSING.address() == 0 && MISSING.address() == 0);
        assert_eq!(MISSING.address.load(Ordering::Relaxed), NONE);
    }
}

//! Finds the loaded CUDA and PyTorch libraries, wherever the loader keeps them.

use core::ffi::{CStr, c_char, c_int, c_void};

use crate::symbols::dlsym::real_dlsym;
use crate::symbols::table::Home;

/// Longest path of a library that is taken.
const LONGEST: usize = 4096;

/// The path of a loaded library of a given name.
struct Search {
    name: &'static [u8],
    path: [u8; LONGEST],
    found: bool,
}

/// Whether a file is the library `name`. Wheels bundle copies with a hash in the name:
/// `libcudart-80664282.so.10.2`, `libcudart.d9bbffd7.so.10.2`.
fn is_library(file: &[u8], name: &[u8]) -> bool {
    file.strip_prefix(name)
        .is_some_and(|rest| matches!(rest.first(), Some(b'.' | b'-')))
}

unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _: usize, data: *mut c_void) -> c_int {
    // SAFETY: dl_iterate_phdr passes a valid structure and the pointer given to it below.
    let (info, search) = unsafe { (&*info, &mut *data.cast::<Search>()) };
    if info.dlpi_name.is_null() {
        return 0;
    }
    // SAFETY: the loader's names are NUL-terminated.
    let path = unsafe { CStr::from_ptr(info.dlpi_name) }.to_bytes_with_nul();
    let base = path.rsplit(|&b| b == b'/').next().unwrap_or(path);
    if !is_library(base, search.name) {
        return 0;
    }
    match search.path.get_mut(..path.len()) {
        Some(room) => {
            room.copy_from_slice(path);
            search.found = true;
            1
        }
        None => 0,
    }
}

/// A handle of the loaded library of that name; null if none is loaded. The handle is kept: the library
/// is one that the process needs to its end.
fn loaded(name: &'static [u8]) -> *mut c_void {
    let mut search = Search {
        name,
        path: [0; LONGEST],
        found: false,
    };
    // SAFETY: the callback has the type asked for, and `search` outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut search).cast()) };
    if !search.found {
        return core::ptr::null_mut();
    }
    // SAFETY: the path is NUL-terminated; RTLD_NOLOAD loads nothing and runs no constructor.
    unsafe {
        libc::dlopen(
            search.path.as_ptr().cast::<c_char>(),
            libc::RTLD_LAZY | libc::RTLD_NOLOAD,
        )
    }
}

/// The function `name` in its home library, if that is loaded; else 0.
pub(crate) fn find(home: Home, name: &CStr) -> usize {
    let library: &'static [u8] = match home {
        Home::Driver => b"libcuda",
        Home::Runtime => b"libcudart",
        Home::PyTorch => b"libc10",
    };
    match loaded(library) {
        handle if handle.is_null() => 0,
        handle => real_dlsym(handle, name) as usize,
    }
}

#[cfg(test)]
mod tests {
    use super::is_library;

    #[test]
    fn bundled_copies_are_known() {
        for file in [
            "libcudart.so.13",
            "libcudart-80664282.so.10.2",
            "libcudart.d9bbffd7.so.10.2",
        ] {
            assert!(is_library(file.as_bytes(), b"libcudart"), "{file}");
        }
        for file in [
            "libcudart_static.so",
            "libcudartx.so",
            "libcuda.so.1",
            "xlibcudart.so",
        ] {
            assert!(!is_library(file.as_bytes(), b"libcudart"), "{file}");
        }
        assert!(!is_library(b"libcudart.so.13", b"libcuda"));
        assert!(!is_library(b"libc10_cuda.so", b"libc10"));
    }
}

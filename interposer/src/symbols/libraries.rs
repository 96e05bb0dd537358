//! Finds the loaded CUDA and PyTorch libraries, wherever the loader keeps them.

use core::ffi::{CStr, c_char, c_int, c_void};

use crate::symbols::dlsym::real_dlsym;
use crate::symbols::elf;
use crate::symbols::table::Home;

/// Longest path of a library that is taken.
const LONGEST: usize = 4096;

/// The path of a loaded library of a given name.
struct Search {
    /// The name up to `.so`, or up to the hash that wheels put into the names of what they bundle
    /// (`libcudart-80664282.so.10.2`).
    stem: &'static [u8],
    path: [u8; LONGEST],
    found: bool,
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
    let rest = base.strip_prefix(search.stem);
    if !rest.is_some_and(|rest| rest.starts_with(b".so") || rest.starts_with(b"-")) {
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

/// A handle of the loaded library of that name up to `.so`; null if none is loaded. The
/// handle is kept: the library is one that the process needs to its end.
fn loaded(stem: &'static [u8]) -> *mut c_void {
    let mut search = Search {
        stem,
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

/// The function `name` in its home library, or in another library that defines it (a runtime linked
/// into something larger), if one is loaded; else 0. `own` is our function of that name.
pub(crate) fn find(home: Home, name: &CStr, own: usize) -> usize {
    let stem: &'static [u8] = match home {
        Home::Driver => b"libcuda",
        Home::Runtime => b"libcudart",
        Home::PyTorch => b"libc10",
        Home::TorchCpu => b"libtorch_cpu",
        Home::TorchCuda => b"libtorch_cuda",
        Home::Nvml => b"libnvidia-ml",
    };
    let found = match loaded(stem) {
        handle if handle.is_null() => 0,
        handle => real_dlsym(handle, name) as usize,
    };
    if found == 0 || found == own {
        elf::anywhere(name, own)
    } else {
        found
    }
}

//! Functions of other libraries in this process.

use core::ffi::{CStr, c_void};

use gpumem_sys::loaded;
use gpumem_torch_abi::Library;

/// The address of an exported symbol of one of PyTorch's libraries; 0 if it does not exist.
pub(crate) fn torch(library: Library, name: &CStr) -> usize {
    let files: &[&[u8]] = match library {
        Library::C10Cuda => &[b"libc10_cuda.so"],
        // Before 2.5 the class was in the second one.
        Library::TorchCuda => &[b"libtorch_cuda.so", b"libtorch_python.so"],
    };
    let mut found = files
        .iter()
        .map(|file| symbol(loaded::handle_of(|of| of == *file), name));
    found.find(|&address| address != 0).unwrap_or(0)
}

/// Bytes of PyTorch's libraries that are never written.
pub(crate) fn constants(address: usize, length: usize) -> Option<&'static [u8]> {
    // SAFETY: PyTorch never unloads its libraries.
    unsafe { loaded::constants(address, length) }
}

/// An exported symbol of libc10, which PyTorch loads without `RTLD_GLOBAL`.
pub(crate) fn c10(name: &CStr) -> usize {
    symbol(loaded::handle_of(|of| of == b"libc10.so"), name)
}

/// An exported symbol of the driver, which the runtime loads without `RTLD_GLOBAL`; 0 if it does
/// not exist.
pub(crate) fn driver(name: &CStr) -> usize {
    symbol(loaded::handle_of(|of| of == b"libcuda.so.1"), name)
}

/// The next symbol of that name after ours.
pub(crate) fn next(name: &CStr) -> usize {
    symbol(libc::RTLD_NEXT, name)
}

/// The symbol of that name in the C++ library, which may be hidden from other libraries.
pub(crate) fn cxx(name: &CStr) -> usize {
    symbol(
        loaded::handle_of(|of| of.starts_with(b"libstdc++.so")),
        name,
    )
}

fn symbol(handle: *mut c_void, name: &CStr) -> usize {
    if handle.is_null() {
        return 0;
    }
    // SAFETY: the handle is a library's or one of the loader's; the name is NUL-terminated.
    unsafe { libc::dlsym(handle, name.as_ptr()) as usize }
}

//! Finds the loaded CUDA and PyTorch libraries, wherever the loader keeps them.

use core::ffi::{CStr, c_char, c_void};
use core::ops::ControlFlow;

use gpumem_sys::loaded;

use super::{elf, real};

/// Which library the real function lives in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Home {
    /// libcuda: handed out by `dlsym` and `cuGetProcAddress`.
    Driver,
    /// libcudart: bound by name only.
    Runtime,
    /// libc10 of PyTorch: bound by name only.
    PyTorch,
    /// libtorch_cpu, where PyTorch's autograd is: bound by name only.
    TorchCpu,
    /// libtorch_cuda: bound by name only.
    TorchCuda,
    /// libnvidia-ml: handed out by `dlsym`.
    Nvml,
}

impl Home {
    /// Whether it is one of PyTorch's libraries.
    pub(crate) const fn is_pytorchs(self) -> bool {
        matches!(self, Self::PyTorch | Self::TorchCpu | Self::TorchCuda)
    }
}

/// Longest path of a library that is taken.
const LONGEST: usize = 4096;

/// A handle of the loaded library of that name up to `.so`, or up to the hash that wheels put into the names of what they
/// bundle (`libcudart-80664282.so.10.2`); null if none is loaded. The handle is kept: the library is one that the process
/// needs to its end.
fn loaded(stem: &'static [u8]) -> *mut c_void {
    let mut path = [0; LONGEST];
    let found = loaded::find(|library| {
        let whole = library.path().to_bytes_with_nul();
        let rest = library.file_name().strip_prefix(stem);
        if rest.is_some_and(|rest| rest.starts_with(b".so") || rest.starts_with(b"-"))
            && let Some(room) = path.get_mut(..whole.len())
        {
            room.copy_from_slice(whole);
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    });
    if found.is_none() {
        return core::ptr::null_mut();
    }
    // SAFETY: the path is NUL-terminated; RTLD_NOLOAD loads nothing and runs no constructor.
    unsafe {
        libc::dlopen(
            path.as_ptr().cast::<c_char>(),
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
        handle => real::dlsym(handle, name) as usize,
    };
    if found == 0 || found == own {
        elf::anywhere(name, own)
    } else {
        found
    }
}

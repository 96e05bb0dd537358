//! Finds the loaded CUDA and PyTorch libraries, in any scope of the loader.

use core::ffi::CStr;

use gpumem_sys::loaded;

use super::{elf, real};

/// The library of the real function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Home {
    /// libcuda: returned by `dlsym` and `cuGetProcAddress`.
    Driver,
    /// libcudart: bound by name only.
    Runtime,
    /// libc10 of PyTorch: bound by name only.
    PyTorch,
    /// libc10_cuda, where PyTorch's caching allocator is: bound by name only.
    C10Cuda,
    /// libtorch_cpu, where PyTorch's autograd is: bound by name only.
    TorchCpu,
    /// libtorch_cuda: bound by name only.
    TorchCuda,
    /// libnvidia-ml: returned by `dlsym`.
    Nvml,
}

impl Home {
    /// Whether it is one of PyTorch's libraries.
    pub(crate) const fn is_pytorchs(self) -> bool {
        matches!(
            self,
            Self::PyTorch | Self::C10Cuda | Self::TorchCpu | Self::TorchCuda
        )
    }
}

/// The function `name` in its home library, or in another library that defines it (a runtime linked
/// into a larger library), if one is loaded; otherwise 0. `own` is our function of that name.
pub(crate) fn find(home: Home, name: &CStr, own: usize) -> usize {
    let stem: &'static [u8] = match home {
        Home::Driver => b"libcuda",
        Home::Runtime => b"libcudart",
        Home::PyTorch => b"libc10",
        Home::C10Cuda => b"libc10_cuda",
        Home::TorchCpu => b"libtorch_cpu",
        Home::TorchCuda => b"libtorch_cuda",
        Home::Nvml => b"libnvidia-ml",
    };
    // Up to `.so`, or up to the hash that wheels add to the names of bundled libraries
    // (`libcudart-80664282.so.10.2`).
    let is_wanted = |name: &[u8]| {
        let rest = name.strip_prefix(stem);
        rest.is_some_and(|rest| rest.starts_with(b".so") || rest.starts_with(b"-"))
    };
    let found = match loaded::handle_of(is_wanted) {
        handle if handle.is_null() => 0,
        handle => real::dlsym(handle, name) as usize,
    };
    if found == 0 || found == own {
        elf::anywhere(name, own)
    } else {
        found
    }
}

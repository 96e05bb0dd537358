//! Finds the loaded CUDA and PyTorch libraries, in any scope of the loader, and the functions that a program's calls
//! would reach without this library. No look-up by the loader is used, because it would replace the caller's `dlerror`.

use core::ffi::CStr;
use core::ops::ControlFlow;
use core::sync::atomic::Ordering;

use gpumem_sys::loaded;

use super::elf;
use crate::process::PROCESS;

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

/// Whether a library of that file name is a home.
fn is_home(home: Home, name: &[u8]) -> bool {
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
    let rest = name.strip_prefix(stem);
    rest.is_some_and(|rest| rest.starts_with(b".so") || rest.starts_with(b"-"))
}

/// The function `name` in its home library, or in another library that defines it (a runtime linked
/// into a larger library), if one is loaded; otherwise 0. `own` is our function of that name.
pub(crate) fn find(home: Home, name: &CStr, own: usize) -> usize {
    let found = loaded::find(|library| match is_home(home, library.file_name()) {
        true => elf::of(library, name, own),
        false => ControlFlow::Continue(()),
    });
    found.unwrap_or_else(|| elf::anywhere(name, own))
}

/// Counts the libraries that are loaded with the program: before its own code runs.
pub(crate) fn count_first() {
    let mut count = 0;
    let _: Option<()> = loaded::find(|_| {
        count += 1;
        ControlFlow::Continue(())
    });
    PROCESS.libraries.store(count, Ordering::Relaxed);
}

/// The function `name` of the first library after the one that holds `address`, among those that were loaded with the
/// program. None before these are counted.
pub(super) fn with_the_program_after(address: usize, name: &CStr) -> Option<usize> {
    let first = PROCESS.libraries.load(Ordering::Relaxed);
    let (mut place, mut is_after) = (0, false);
    let found = loaded::find(|library| {
        place += 1;
        if place > first {
            return ControlFlow::Break(0);
        }
        if !is_after {
            is_after = library.holds(address);
            return ControlFlow::Continue(());
        }
        elf::of(library, name, address)
    });
    (first != 0).then_some(found.unwrap_or(0))
}

/// The function `name` that follows ours, at `own`: that of a library loaded with the program after this one (another
/// preloaded library stays in the chain), or that of its home. 0 if both lack it.
pub(crate) fn after_ours(home: Home, name: &CStr, own: usize) -> usize {
    match with_the_program_after(own, name).unwrap_or(0) {
        0 => find(home, name, own),
        found => found,
    }
}

/// Whether a home library is loaded.
pub(crate) fn is_loaded(home: Home) -> bool {
    let found = loaded::find(|library| match is_home(home, library.file_name()) {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    });
    found.is_some()
}

/// Keeps the driver loaded, because the recorder's threads call it. On one of these threads: a look-up by the loader.
pub(crate) fn keep_driver() {
    loaded::handle_of(|name| is_home(Home::Driver, name));
}

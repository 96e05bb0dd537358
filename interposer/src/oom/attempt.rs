//! Attempts of a convolution: PyTorch requests a workspace for one algorithm after another until one fits. A workspace
//! that does not fit is rarely the end of a program.

use core::ffi::CStr;

use gpumem_capture::StackId;
use gpumem_replay::names::{Names, NativeFrame};

/// The library of PyTorch's allocator, and that of its operators on a GPU.
const ALLOCATOR: &str = "libc10_cuda";
const OPERATORS: &str = "libtorch_cuda";
/// Parts of the names of functions that run a convolution.
const CONVOLUTIONS: [&[u8]; 2] = [b"cudnn_convolution", b"convolution_backward"];

/// Whether the request of a native stack is a convolution's workspace. Its tensors are allocated by another library.
pub(super) fn is_one(names: &Names, native: StackId) -> bool {
    let frames = names.native_stacks.get(&native);
    let frames = frames.map_or(&[][..], |(frames, _)| frames);
    let is_in = |frame: &NativeFrame, library: &str| {
        let module = frame.module.and_then(|at| names.modules.get(at as usize));
        module.is_some_and(|of| of.basename().starts_with(library))
    };
    let callers = frames.iter().skip_while(|of| !is_in(of, ALLOCATOR));
    let mut callers = callers.skip_while(|of| is_in(of, ALLOCATOR)).peekable();
    callers.peek().is_some_and(|of| is_in(of, OPERATORS))
        && callers.any(|of| is_convolution(of.call_address()))
}

/// Whether the exported function at an address is an operator that runs a convolution.
fn is_convolution(address: u64) -> bool {
    let info = gpumem_sys::loaded::symbol_at(address as usize);
    if info.dli_sname.is_null() {
        return false;
    }
    // SAFETY: the name of a symbol of a loaded library, whose code is on a stack that waits for us or has just returned.
    let name = unsafe { CStr::from_ptr(info.dli_sname) }.to_bytes();
    let has = |part: &&[u8]| name.windows(part.len()).any(|of| of == *part);
    name.starts_with(b"_ZN2at4_ops") && CONVOLUTIONS.iter().any(has)
}

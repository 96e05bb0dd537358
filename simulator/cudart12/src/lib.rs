//! The simulated `libcudart.so.12`: that of CUDA 13 under CUDA 12's name, and the functions that PyTorch takes from CUDA 12
//! alone. So PyTorch 2.1 to 2.10 allocate on the simulated card.
//!
//! # Not suitable for
//! Programs that use what changed its arguments from CUDA 12 to 13 and is not here.

mod properties;

use core::ffi::{c_int, c_void};

// Its functions are this library's.
extern crate simcudart as _;

unsafe extern "C" {
    fn cudaStreamGetCaptureInfo(
        stream: *mut c_void,
        status: *mut c_int,
        id: *mut u64,
        graph: *mut *mut c_void,
        after: *mut *const c_void,
        edges: *mut *const c_void,
        count: *mut usize,
    ) -> c_int;
}

/// CUDA 12's function of this name: without edges.
///
/// # Safety
/// As the runtime's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaStreamGetCaptureInfo_v2(
    stream: *mut c_void,
    status: *mut c_int,
    id: *mut u64,
    graph: *mut *mut c_void,
    after: *mut *const c_void,
    count: *mut usize,
) -> c_int {
    let edges = core::ptr::null_mut();
    // SAFETY: the caller's own arguments.
    unsafe { cudaStreamGetCaptureInfo(stream, status, id, graph, after, edges, count) }
}

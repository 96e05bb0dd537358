//! Functions whose calls are counted and whose memory is not recorded. If one of them succeeds, the account reports
//! the number of its successful calls, and is not exact any more.

use core::ffi::c_void;

use gpumem_cuda_abi::{CuArray, CuArray3dDescriptorV1, CuArrayDescriptorV1, CuResult, CuStream};

macro_rules! unrecorded {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $type:ty),* $(,)?);)*) => {$(
        hook! {
            $(#[$doc])*
            Driver Optional
            fn $name($($arg: $type),*) -> CuResult;
            missing CuResult::NOT_INITIALIZED;
            with call, thread, result, held;
            before {}
            after {
                if result.is_success() {
                    crate::account::unrecorded(HOOK.id());
                }
            }
        }
    )*};
}

// Forms from before CUDA 3.2, with 32-bit pointers and sizes. 64-bit drivers export and refuse them.
unrecorded! {
    /// Device memory.
    fn cuMemAlloc(pointer: *mut u32, bytes: u32);
    /// Rows of device memory.
    fn cuMemAllocPitch(pointer: *mut u32, pitch: *mut u32, width: u32, height: u32, element: u32);
    /// Releases device memory.
    fn cuMemFree(pointer: u32);
    /// An array of one or two dimensions.
    fn cuArrayCreate(array: *mut CuArray, descriptor: *const CuArrayDescriptorV1);
    /// An array of up to three dimensions.
    fn cuArray3DCreate(array: *mut CuArray, descriptor: *const CuArray3dDescriptorV1);
}

unrecorded! {
    /// Maps memory to sparse arrays.
    fn cuMemMapArrayAsync(list: *mut c_void, count: u32, stream: CuStream);
    /// The same, with the per-thread default stream.
    fn cuMemMapArrayAsync_ptsz(list: *mut c_void, count: u32, stream: CuStream);
}

// Memory of OpenGL, EGL, VDPAU and Direct3D: CUDA does not get its size.
unrecorded! {
    /// Makes memory of a graphics API accessible.
    fn cuGraphicsMapResources(count: u32, resources: *mut *mut c_void, stream: CuStream);
    /// The same, with the per-thread default stream.
    fn cuGraphicsMapResources_ptsz(count: u32, resources: *mut *mut c_void, stream: CuStream);
}

//! Opaque handles of the driver API.

use libc::c_void;

macro_rules! pointer_handle {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[repr(transparent)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub struct $name(pub *mut c_void);

        impl $name {
            /// The null handle.
            pub const NULL: Self = Self(core::ptr::null_mut());

            /// Whether this is the null handle.
            pub fn is_null(self) -> bool {
                self.0.is_null()
            }
        }
    )*};
}

pointer_handle! {
    /// `CUcontext`.
    CuContext;
    /// `CUmodule`.
    CuModule;
    /// `CUfunction`.
    CuFunction;
    /// `CUlibrary` (CUDA 12).
    CuLibrary;
    /// `CUkernel` (CUDA 12).
    CuKernel;
    /// `CUstream`; null, 1 (legacy) and 2 (per thread) are the default streams.
    CuStream;
    /// `CUevent`.
    CuEvent;
    /// `CUmemoryPool`.
    CuMemoryPool;
    /// `CUarray`.
    CuArray;
    /// `CUmipmappedArray`.
    CuMipmappedArray;
    /// `CUgraph`.
    CuGraph;
    /// `CUgraphNode`.
    CuGraphNode;
    /// `CUgraphExec`.
    CuGraphExec;
    /// `CUexternalMemory`.
    CuExternalMemory;
    /// `CUgreenCtx` (CUDA 12.4).
    CuGreenCtx;
}

impl CuStream {
    /// `CU_STREAM_PER_THREAD`: the calling thread's own default stream.
    pub const PER_THREAD: Self = Self(core::ptr::without_provenance_mut(2));
}

/// `CUdevice`: a device ordinal as this process sees it.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CuDevice(pub i32);

/// `CUdeviceptr`: an address in device (or unified) memory.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CuDevicePtr(pub u64);

/// `CUmemGenericAllocationHandle`: physical memory made by `cuMemCreate`.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CuMemHandle(pub u64);

/// `CUuuid`: sixteen bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CuUuid {
    /// The bytes in the order in which tools print them.
    pub bytes: [u8; 16],
}

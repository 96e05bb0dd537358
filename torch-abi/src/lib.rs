//! The binary interface of PyTorch's caching allocator for CUDA memory. The recorder and the replay of allocators use
//! only this, without PyTorch's headers.
//!
//! The allocator's class is hidden. But `CUDAPluggableAllocator` derives from the same base and exports its vtable and
//! the functions in it. The slot of a function in that vtable is its slot in every other one.

mod active;
mod defaults;
mod function;
mod shared;
mod slots;
mod trace;
mod wrapped;

pub use active::{
    ACTIVATE, ACTIVE_POOL, Address, DEACTIVATE, IdOf, POOL_ALLOCATOR, POOL_ID, PoolId,
};
pub use function::{FUNCTION_BYTES, Function};
pub use shared::Shared;
pub use slots::{Backend, Found, Library, Method, Table, find};
pub use trace::{Tail, TraceEntry, clock};
pub use wrapped::Wrapped;

/// `c10::cuda::CUDAStream`, as passed in two registers.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Stream {
    /// The device's type in the low byte, its index in the next.
    pub device: u64,
    /// PyTorch's number of the stream: the same in each process that requests streams in the same order.
    pub id: u64,
}

/// `c10::cuda::getCurrentCUDAStream(DeviceIndex)`, in libc10_cuda.
pub const CURRENT_STREAM: &core::ffi::CStr = c"_ZN3c104cuda20getCurrentCUDAStreamEa";
/// `c10::cuda::CUDAStream::stream() const`, in libc10_cuda.
pub const STREAM_HANDLE: &core::ffi::CStr = c"_ZNK3c104cuda10CUDAStream6streamEv";
/// `c10::cuda::device_count_ensure_non_zero()`, in libc10_cuda, which runs just before the allocator is set up.
pub const BEFORE_INIT: &core::ffi::CStr = c"_ZN3c104cuda28device_count_ensure_non_zeroEv";

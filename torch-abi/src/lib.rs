//! PyTorch's caching allocator of CUDA memory by its binary interface: the recorder and the replay of allocators know it
//! by this alone, without PyTorch's headers.
//!
//! The allocator's class is hidden. But `CUDAPluggableAllocator` derives from the same base and exports its table of virtual
//! functions and the functions in it: the place of a function in that table is its place in every other one.

mod function;
mod shared;
mod slots;

pub use function::{FUNCTION_BYTES, Function};
pub use shared::Shared;
pub use slots::{Backend, Found, Library, Method, Table, find};

/// `c10::cuda::CUDAStream`, as it travels in two registers.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Stream {
    /// The device's type in the low byte, its index in the next.
    pub device: u64,
    /// PyTorch's number of the stream: the same in each process that takes streams in the same order.
    pub id: u64,
}

/// `c10::cuda::getCurrentCUDAStream(DeviceIndex)`, in libc10_cuda.
pub const CURRENT_STREAM: &core::ffi::CStr = c"_ZN3c104cuda20getCurrentCUDAStreamEa";
/// `c10::cuda::CUDAStream::stream() const`, in libc10_cuda.
pub const STREAM_HANDLE: &core::ffi::CStr = c"_ZNK3c104cuda10CUDAStream6streamEv";
/// `c10::cuda::device_count_ensure_non_zero()`, in libc10_cuda, which runs just before the allocator is set up.
pub const BEFORE_INIT: &core::ffi::CStr = c"_ZN3c104cuda28device_count_ensure_non_zeroEv";

/// `c10::CachingDeviceAllocator::TraceEntry`, its first fields.
#[repr(C)]
#[derive(Debug)]
pub struct TraceEntry {
    /// What was done: [`TraceEntry::ALLOC`] and so on.
    pub action: i32,
    /// The device.
    pub device: u8,
    /// Address.
    pub ptr: u64,
    /// A `shared_ptr` of the stack.
    pub context: [u64; 2],
    /// `cudaStream_t`.
    pub stream: u64,
    /// Bytes that were asked for.
    pub bytes: u64,
    /// The pool.
    pub pool: (u64, u64),
}

impl TraceEntry {
    /// A block was handed out.
    pub const ALLOC: i32 = 0;
    /// The program freed one.
    pub const FREE_REQUESTED: i32 = 1;
    /// It went back to the pool.
    pub const FREE_COMPLETED: i32 = 2;
    /// A segment came from CUDA.
    pub const SEGMENT_ALLOC: i32 = 3;
    /// One went back.
    pub const SEGMENT_FREE: i32 = 4;
    /// Memory was mapped into an expandable segment.
    pub const SEGMENT_MAP: i32 = 5;
    /// It was unmapped.
    pub const SEGMENT_UNMAP: i32 = 6;
    /// There was no memory for a block.
    pub const OOM: i32 = 8;
}

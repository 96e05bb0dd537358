//! The active pool of a thread, in 2.5 to 2.7. Memory that the thread frees because it ran out of memory, or by
//! `emptyCache()`, comes from that pool only.

use core::ffi::CStr;

/// `c10::cuda::MemPoolContext::getActiveMemPool()`, in libc10_cuda: a `MemPool*`.
pub const ACTIVE_POOL: &CStr = c"_ZN3c104cuda14MemPoolContext16getActiveMemPoolEv";
/// `c10::cuda::MemPool::id()`, in libc10_cuda: a pair of words.
pub const POOL_ID: &CStr = c"_ZN3c104cuda7MemPool2idEv";
/// `c10::cuda::MemPool::allocator()`, in libc10_cuda: null if the pool has no allocator.
pub const POOL_ALLOCATOR: &CStr = c"_ZN3c104cuda7MemPool9allocatorEv";
/// `c10::cuda::MemPoolContext::MemPoolContext(MemPool*)`, in libc10_cuda.
pub const ACTIVATE: &CStr = c"_ZN3c104cuda14MemPoolContextC1EPNS0_7MemPoolE";
/// `c10::cuda::MemPoolContext::~MemPoolContext()`, in libc10_cuda.
pub const DEACTIVATE: &CStr = c"_ZN3c104cuda14MemPoolContextD1Ev";

/// A pool's id, as returned in two registers.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolId(pub u64, pub u64);

/// A function that returns a pool's id.
pub type IdOf = unsafe extern "C-unwind" fn(usize) -> PoolId;

/// A function that returns an address.
pub type Address = unsafe extern "C-unwind" fn(usize) -> usize;

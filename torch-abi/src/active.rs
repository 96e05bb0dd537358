//! The pool that is active on a thread, in 2.5 to 2.7: what the thread has freed for want of memory, or by `emptyCache()`,
//! is that pool's alone.

use core::ffi::CStr;

/// `c10::cuda::MemPoolContext::getActiveMemPool()`, in libc10_cuda: a `MemPool*`.
pub const ACTIVE_POOL: &CStr = c"_ZN3c104cuda14MemPoolContext16getActiveMemPoolEv";
/// `c10::cuda::MemPool::id()`, in libc10_cuda: a pair of words.
pub const POOL_ID: &CStr = c"_ZN3c104cuda7MemPool2idEv";
/// `c10::cuda::MemPool::allocator()`, in libc10_cuda: null if the pool has none of its own.
pub const POOL_ALLOCATOR: &CStr = c"_ZN3c104cuda7MemPool9allocatorEv";
/// `c10::cuda::MemPoolContext::MemPoolContext(MemPool*)`, in libc10_cuda.
pub const ACTIVATE: &CStr = c"_ZN3c104cuda14MemPoolContextC1EPNS0_7MemPoolE";
/// `c10::cuda::MemPoolContext::~MemPoolContext()`, in libc10_cuda.
pub const DEACTIVATE: &CStr = c"_ZN3c104cuda14MemPoolContextD1Ev";

/// A pool's number, as it comes in two registers.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolId(pub u64, pub u64);

/// A function of a pool that gives its number.
pub type IdOf = unsafe extern "C-unwind" fn(usize) -> PoolId;

/// A function that gives an address.
pub type Address = unsafe extern "C-unwind" fn(usize) -> usize;

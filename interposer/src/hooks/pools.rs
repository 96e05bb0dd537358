//! Memory pools: what they hold changes by more calls than allocations.

use core::ffi::{c_int, c_void};

use gpumem_cuda_abi::{CuMemoryPool, CuResult};

use crate::aliases;
use crate::physical::pools;
use crate::record;

hook! {
    /// Ends a pool. It keeps what it holds for as long as memory of it is live.
    Driver Optional
    fn cuMemPoolDestroy(pool: CuMemoryPool) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    with call, thread, result, held;
    before {
        let first = pools::about_to_destroy(pool.0 as u64);
        (first, aliases::ending(thread, call.api(), pool.0 as u64))
    }
    after {
        let (first, alias) = held.unzip();
        aliases::settle(thread, call.api(), result.is_success(), alias);
        if !result.is_success() && first == Some(true) {
            pools::spared(pool.0 as u64);
        }
        record::settle(thread, call.api());
    }
}

hook! {
    /// Gives back what a pool does not use.
    Driver Optional
    fn cuMemPoolTrimTo(pool: CuMemoryPool, keep: usize) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    with call, thread, result, held;
    before {}
    after { record::settle(thread, call.api()); }
}

hook! {
    /// Changes what a pool keeps.
    Driver Optional
    fn cuMemPoolSetAttribute(pool: CuMemoryPool, attribute: c_int, value: *mut c_void) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    with call, thread, result, held;
    before {}
    after { record::settle(thread, call.api()); }
}

//! Memory pools: what they hold changes by more calls than allocations.

use core::ffi::{c_int, c_void};

use gpumem_cuda_abi::{CuMemoryPool, CuResult};

use crate::call::{self, Call};
use crate::physical::pools;
use crate::thread::Thread;
use crate::{aliases, evidence, record};

/// A pool was made, perhaps where a destroyed one was.
fn made(thread: &Thread, call: &Call, pool: u64) {
    if pools::made(pool) {
        evidence::pool_made(pool);
        record::settle(thread, call.api());
    }
}

hook! {
    /// Makes a pool.
    Driver Optional
    fn cuMemPoolCreate(pool: *mut CuMemoryPool, properties: *const c_void) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    with call, thread, result, held;
    before {}
    after {
        if result.is_success() {
            // SAFETY: the call succeeded, so the driver has just written there.
            made(thread, &call, unsafe { (*pool).0 } as u64);
        }
    }
}

hook! {
    /// Ends a pool. It keeps what it holds for as long as memory of it is live.
    Driver Optional
    fn cuMemPoolDestroy(pool: CuMemoryPool) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    with call, thread, result, held;
    before {
        let still = call::still(thread);
        // While the driver answers questions about it.
        record::settle(thread, call.api());
        let first = pools::about_to_destroy(pool.0 as u64);
        (still, first, aliases::ending(thread, call.api(), pool.0 as u64))
    }
    after {
        if let Some((still, first, alias)) = held {
            aliases::settle(thread, call.api(), result.is_success(), Some(alias));
            if !result.is_success() && first {
                pools::spared(pool.0 as u64);
            }
            record::settle(thread, call.api());
            if (still.is_none() || call::still(thread) != still)
                && let Some(device) = pools::outlives_its_end(pool.0 as u64)
            {
                // What it took last, nobody can ask for any more.
                evidence::pool_unasked(thread, &call, device, pool.0 as u64);
            }
        }
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

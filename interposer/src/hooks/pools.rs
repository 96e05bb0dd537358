//! Memory pools: what they hold changes by more calls than allocations.

use core::ffi::{c_int, c_void};

use gpumem_cuda_abi::{CuMemoryPool, CuResult};

use super::context;
use crate::aliases;
use crate::call::{self, Call};
use crate::physical::pools;
use crate::record;
use crate::thread::Thread;

/// A pool was destroyed while others were at work: if it outlives that, what it holds is found out later.
fn unseen_growth(thread: &Thread, call: &Call, pool: u64) {
    if let Some(device) = pools::outlives_its_end(pool) {
        record::owe(thread, call.api(), device, pools::holding(pool));
    }
}

hook! {
    /// Ends a pool. It keeps what it holds for as long as memory of it is live.
    Driver Optional
    fn cuMemPoolDestroy(pool: CuMemoryPool) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    with call, thread, result, held;
    before {
        let alone = call::alone();
        // While the driver answers questions about it.
        record::settle(thread, call.api());
        let first = pools::about_to_destroy(pool.0 as u64);
        (alone, first, aliases::ending(thread, call.api(), pool.0 as u64))
    }
    after {
        if let Some((alone, first, alias)) = held {
            aliases::settle(thread, call.api(), result.is_success(), Some(alias));
            if !result.is_success() && first {
                pools::spared(pool.0 as u64);
            }
            record::settle(thread, call.api());
            if alone.is_none() || call::alone() != alone {
                // What it took last, nobody can ask for any more.
                unseen_growth(thread, &call, pool.0 as u64);
            }
            context::may_linger();
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
    after {
        record::settle(thread, call.api());
        context::may_linger();
    }
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

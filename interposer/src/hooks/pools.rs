//! Memory pools: what they hold changes by more calls than allocations.

use core::ffi::{c_int, c_void};

use gpumem_cuda_abi::{CuMemoryPool, CuResult};

use super::context;
use crate::aliases;
use crate::call::Call;
use crate::hold::Hold;
use crate::nvml::remainder;
use crate::physical::pools;
use crate::record;
use crate::thread::Thread;

/// A pool was destroyed while others were at work: if it outlives that, what it holds is found out later.
fn unseen_growth(thread: &Thread, call: &Call, pool: u64) {
    if let Some(device) = pools::outlives_its_end(pool) {
        record::owe(thread, call.api(), device, pools::holding(pool));
    }
}

/// A pool was made, perhaps where a destroyed one was.
fn made(thread: &Thread, call: &Call, pool: u64) {
    if pools::made(pool) {
        let _ = remainder::ended(|_, holding, _| holding == pools::holding(pool));
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
        let hold = Hold::begin(thread);
        // While the driver answers questions about it.
        record::settle(thread, call.api());
        let first = pools::about_to_destroy(pool.0 as u64);
        (hold, first, aliases::ending(thread, call.api(), pool.0 as u64))
    }
    after {
        if let Some((hold, first, alias)) = held {
            aliases::settle(thread, call.api(), result.is_success(), Some(alias));
            if !result.is_success() && first {
                pools::spared(pool.0 as u64);
            }
            record::settle(thread, call.api());
            if !hold.end() {
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

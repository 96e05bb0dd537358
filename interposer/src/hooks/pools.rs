//! Memory pools: their size changes by more calls than allocations.

use core::ffi::{c_int, c_void};

use gpumem_capture::DeviceOrdinal;
use gpumem_cuda_abi::{CuMemPoolProps, CuMemoryPool, CuResult};

use gpumem_tracker::{Place, Tracker};

use super::{blocks, places};
use crate::call::{self, Call};
use crate::thread::Thread;
use crate::{evidence, record, session, tracked};

/// Records a new pool, perhaps with the handle of a destroyed one.
fn made(thread: &Thread, call: &Call, pool: u64, place: Place) {
    if !matches!(place, Place::Device(_)) {
        // Older drivers do not report the place of a pool: it must be known at the first block.
        session::open();
    }
    let again = |tracker: &mut Tracker, origin| tracker.pool_made(pool, place, origin);
    if record::without_stacks(thread, call, again) == Some(true) {
        record::settle(thread, call.api());
    }
}

/// The device of a pool from which no memory is known to have come: another thread may be about to record its first
/// block.
fn device_if_unknown(pool: CuMemoryPool) -> Option<DeviceOrdinal> {
    let session = session::session()?;
    let is_known = tracked::look(session, |tracker| tracker.knows_pool(pool.0 as u64));
    match (!is_known).then(|| places::of_pool(pool)).flatten() {
        Some(Place::Device(device)) if device != DeviceOrdinal::NONE => Some(device),
        _ => None,
    }
}

hook! {
    /// Creates a pool.
    Driver Optional
    fn cuMemPoolCreate(pool: *mut CuMemoryPool, properties: *const CuMemPoolProps) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    with call, thread, result, held;
    before {}
    after {
        if result.is_success() {
            // SAFETY: the call succeeded: the driver has just written the one and read the other.
            let (pool, properties) = unsafe { ((*pool).0 as u64, *properties) };
            made(thread, &call, pool, places::of(properties.alloc_type, properties.location));
        }
    }
}

hook! {
    /// Ends a pool. It keeps its memory as long as a block of it is live.
    Driver Optional
    fn cuMemPoolDestroy(pool: CuMemoryPool) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    with call, thread, result, held;
    before {
        let still = call::still(thread);
        // While the driver still answers queries of it.
        record::settle(thread, call.api());
        let device = device_if_unknown(pool);
        let pending = record::without_stacks(thread, &call, |tracker, origin| {
            tracker.pool_ending(pool.0 as u64, device, origin)
        });
        (still, pending)
    }
    after {
        if let Some((still, pending)) = held {
            blocks::ended(&call, thread, result, Some(pending));
            record::settle(thread, call.api());
            let outlives = |tracker: &mut Tracker, _| tracker.outlives_its_end(pool.0 as u64);
            if result.is_success()
                && (still.is_none() || call::still(thread) != still)
                && let Some(device) = record::without_stacks(thread, &call, outlives).flatten()
            {
                // The size of its last growth cannot be queried any more.
                evidence::pool_unasked(thread, &call, device, pool.0 as u64);
            }
        }
    }
}

hook! {
    /// Frees unused memory of a pool.
    Driver Optional
    fn cuMemPoolTrimTo(pool: CuMemoryPool, keep: usize) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    with call, thread, result, held;
    before {}
    after { record::settle(thread, call.api()); }
}

hook! {
    /// Changes how much memory a pool keeps.
    Driver Optional
    fn cuMemPoolSetAttribute(pool: CuMemoryPool, attribute: c_int, value: *mut c_void) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    with call, thread, result, held;
    before {}
    after { record::settle(thread, call.api()); }
}

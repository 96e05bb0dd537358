//! Memory pools: what each holds from its device, by the driver's own figure.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use gpumem_capture::{DeviceOrdinal, EventFlags};
use gpumem_cuda_abi::CuMemoryPool;

use super::Cause;
use super::holdings::{self, Holding, Kind};
use crate::live;
use crate::symbols::driver;

/// A pool that memory has come from.
#[derive(Clone, Copy)]
struct Pool {
    device: DeviceOrdinal,
    /// Destroyed while memory of it was live: the driver answers no more questions about it, and keeps
    /// what it holds until the last block of it is released.
    destroyed: bool,
}

type Known = BTreeMap<u64, Pool>;

static ANY: AtomicBool = AtomicBool::new(false);
static ANY_DESTROYED: AtomicBool = AtomicBool::new(false);

fn known() -> MutexGuard<'static, Known> {
    static KNOWN: Mutex<Known> = Mutex::new(BTreeMap::new());
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether any pool is known.
#[inline]
pub(crate) fn any() -> bool {
    ANY.load(Ordering::Relaxed)
}

/// Takes note of a pool of `device`.
pub(crate) fn used(pool: u64, device: DeviceOrdinal) {
    if pool == 0 {
        return;
    }
    let destroyed = false;
    known().entry(pool).or_insert(Pool { device, destroyed });
    ANY.store(true, Ordering::Release);
}

/// Takes note that a pool was destroyed.
pub(crate) fn destroyed(pool: u64) {
    if let Some(pool) = known().get_mut(&pool) {
        pool.destroyed = true;
        ANY_DESTROYED.store(true, Ordering::Release);
    }
}

/// Whether the release of a block may be the end of a destroyed pool.
#[inline]
pub(crate) fn any_destroyed() -> bool {
    ANY_DESTROYED.load(Ordering::Relaxed)
}

fn holding(handle: u64) -> Holding {
    Holding {
        kind: Kind::Pool,
        ptr: handle,
    }
}

/// What a pool holds now; `None`: it is gone.
fn holds(handle: u64, pool: Pool) -> Option<u64> {
    if !pool.destroyed {
        return driver::pool_reserved(CuMemoryPool(handle as *mut _));
    }
    let used = live::any(|_, block| block.pool() == Some(handle));
    used.then(|| holdings::size(holding(handle)))
}

/// Asks every pool for its figure and records what has changed.
///
/// The figures are asked for with no lock held, so threads that settle at once could record an older
/// one last. The one that began last records: its answer has in it whatever the others' calls did.
pub(crate) fn settle(cause: &Cause<'_>) {
    static BEGUN: AtomicU64 = AtomicU64::new(0);
    if !any() {
        return;
    }
    let ticket = BEGUN.fetch_add(1, Ordering::AcqRel) + 1;
    let pools: Vec<_> = {
        let known = known();
        known
            .iter()
            .map(|(handle, pool)| (*handle, *pool))
            .collect()
    };
    for (handle, pool) in pools {
        let reserved = holds(handle, pool);
        if BEGUN.load(Ordering::Acquire) != ticket {
            return;
        }
        let bytes = reserved.unwrap_or(0);
        let none = EventFlags::NONE;
        holdings::resize(cause, pool.device, holding(handle), none, |_| bytes);
        if reserved.is_none() {
            known().remove(&handle);
        }
    }
}

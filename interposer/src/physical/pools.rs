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

/// Takes note that a pool is about to be destroyed: from then on a question about it may fail. Whether it
/// is so only now.
pub(crate) fn about_to_destroy(pool: u64) -> bool {
    ANY_DESTROYED.store(true, Ordering::Release);
    let mut known = known();
    let pool = known.get_mut(&pool);
    pool.is_some_and(|pool| !core::mem::replace(&mut pool.destroyed, true))
}

/// It was not destroyed after all.
pub(crate) fn spared(pool: u64) {
    if let Some(pool) = known().get_mut(&pool) {
        pool.destroyed = false;
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
fn holds(handle: u64) -> Option<u64> {
    driver::pool_reserved(CuMemoryPool(handle as *mut _)).or_else(|| {
        // Only now: another thread may have destroyed it since.
        let destroyed = known().get(&handle).is_some_and(|pool| pool.destroyed);
        let kept = destroyed && live::any(|_, block| block.pool() == Some(handle));
        kept.then(|| holdings::size(holding(handle)))
    })
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
        let reserved = holds(handle);
        let bytes = reserved.unwrap_or(0);
        let none = EventFlags::NONE;
        // Looked at where no other can record: one that begins later records later.
        let last = || BEGUN.load(Ordering::Acquire) == ticket;
        holdings::resize(cause, pool.device, holding(handle), none, |before| {
            if last() { bytes } else { before }
        });
        if !last() {
            return;
        }
        if reserved.is_none() {
            known().remove(&handle);
        }
    }
}

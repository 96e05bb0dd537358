//! Memory pools: what each holds from its device, by the driver's own figure.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::collections::BTreeMap;

use gpumem_capture::DeviceOrdinal;
use gpumem_cuda_abi::CuMemoryPool;
use gpumem_tracker::Kind;

use super::figure::Figure;
use crate::session::Session;
use crate::{driver, live, tracked};
use gpumem_capture::writer::lock::{Guard, Lock};

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

/// Allocations from pools that are in progress: the driver may have given a block that is not in the live
/// map yet.
static ALLOCATING: AtomicU64 = AtomicU64::new(0);
/// Whether a destroyed pool is still known only because of those.
static KEPT: AtomicBool = AtomicBool::new(false);

/// An allocation from a pool, from before the driver is asked until the block is in the live map.
pub(crate) struct Allocating;

impl Allocating {
    pub(crate) fn begin() -> Self {
        ALLOCATING.fetch_add(1, Ordering::SeqCst);
        Self
    }

    /// The block is in the live map, or there is none. Whether a destroyed pool may have waited for that.
    pub(crate) fn end(self) -> bool {
        drop(self);
        KEPT.load(Ordering::SeqCst) && KEPT.swap(false, Ordering::SeqCst)
    }
}

impl Drop for Allocating {
    fn drop(&mut self) {
        ALLOCATING.fetch_sub(1, Ordering::SeqCst);
    }
}

fn known() -> Guard<'static, Known> {
    static KNOWN: Lock<Known> = Lock::new(BTreeMap::new());
    KNOWN.lock()
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
    let mut known = known();
    known
        .entry(pool)
        .or_insert(Pool { device, destroyed })
        .device = device;
    ANY.store(true, Ordering::Release);
}

/// A pool was made. Whether its handle was that of one that was destroyed: the driver's answers are about
/// the new one from now on.
pub(crate) fn made(pool: u64) -> bool {
    let mut known = known();
    let before = known.get_mut(&pool);
    before.is_some_and(|pool| core::mem::replace(&mut pool.destroyed, false))
}

/// Takes note that a pool is about to be destroyed: from then on a question about it may fail. Whether it
/// is so only now. Another thread may be about to learn of its first block.
pub(crate) fn about_to_destroy(pool: u64) -> bool {
    ANY_DESTROYED.store(true, Ordering::Release);
    if !known().contains_key(&pool)
        && let Some(device) = driver::pool_device(CuMemoryPool(pool as *mut _))
    {
        used(pool, device);
    }
    let mut known = known();
    let pool = known.get_mut(&pool);
    pool.is_some_and(|pool| !core::mem::replace(&mut pool.destroyed, true))
}

/// The device of a destroyed pool that still holds something, or may.
pub(crate) fn outlives_its_end(pool: u64) -> Option<DeviceOrdinal> {
    let known = known().get(&pool).copied()?;
    known.destroyed.then_some(known.device)
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

/// What a pool holds now; `None`: it is gone.
fn holds(session: &Session, handle: u64) -> Option<u64> {
    driver::pool_reserved(CuMemoryPool(handle as *mut _)).or_else(|| {
        // Only now: another thread may have destroyed it since.
        let destroyed = known().get(&handle).is_some_and(|pool| pool.destroyed);
        // Asked first: what begins later gets nothing of it, what has ended is in the live map.
        let allocating = destroyed && ALLOCATING.load(Ordering::SeqCst) != 0;
        let lives = destroyed && live::any(|_, block| block.pool() == Some(handle));
        if allocating && !lives {
            KEPT.store(true, Ordering::SeqCst);
        }
        let size = || tracked::look(session, |tracker| tracker.bytes(Kind::Pool.of(handle)));
        (allocating || lives).then(size)
    })
}

/// What every known pool holds by the driver's word. No lock is held while it is asked.
pub(super) fn figures(session: &Session) -> Vec<Figure> {
    let pools: Vec<_> = {
        let known = known();
        known
            .iter()
            .map(|(handle, pool)| (*handle, *pool))
            .collect()
    };
    let figure = |(handle, pool): (u64, Pool)| Figure {
        reservation: Kind::Pool.of(handle),
        device: pool.device,
        bytes: holds(session, handle),
    };
    pools.into_iter().map(figure).collect()
}

/// Forgets a pool that is gone, unless another one has its handle by now.
pub(super) fn forget(handle: u64) {
    let mut known = known();
    if known.get(&handle).is_some_and(|pool| pool.destroyed) {
        known.remove(&handle);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_pool_with_the_handle_of_a_destroyed_one_is_not_forgotten() {
        let handle = 0x7000_0000_0001;
        let is_known = || known().contains_key(&handle);
        used(handle, DeviceOrdinal(0));
        assert!(!made(handle));
        assert!(about_to_destroy(handle));
        assert_eq!(outlives_its_end(handle), Some(DeviceOrdinal(0)));
        assert!(made(handle));
        assert_eq!(outlives_its_end(handle), None);
        forget(handle);
        assert!(is_known());
        assert!(about_to_destroy(handle));
        forget(handle);
        assert!(!is_known());
    }
}

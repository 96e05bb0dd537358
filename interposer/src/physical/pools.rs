//! Memory pools: what each holds from its device, by the driver's own figure.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use gpumem_capture::{DeviceOrdinal, EventFlags};
use gpumem_cuda_abi::CuMemoryPool;

use super::Cause;
use super::holdings::{self, Holding, Kind};
use crate::symbols::driver;

/// The pools that memory has come from, and their devices.
type Known = BTreeMap<u64, DeviceOrdinal>;

static ANY: AtomicBool = AtomicBool::new(false);

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
    if pool != 0 && known().insert(pool, device).is_none() {
        ANY.store(true, Ordering::Release);
    }
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
    let pools: Vec<_> = known()
        .iter()
        .map(|(pool, device)| (*pool, *device))
        .collect();
    for (pool, device) in pools {
        let reserved = driver::pool_reserved(CuMemoryPool(pool as *mut _));
        if BEGUN.load(Ordering::Acquire) != ticket {
            return;
        }
        let holding = Holding {
            kind: Kind::Pool,
            ptr: pool,
        };
        holdings::resize(cause, device, holding, EventFlags::NONE, |_| {
            reserved.unwrap_or(0)
        });
        if reserved.is_none() {
            known().remove(&pool); // it is gone
        }
    }
}

//! What stands behind graphs' memory nodes: one figure for each device, by the driver's own word.

use core::sync::atomic::{AtomicU64, Ordering};

use gpumem_capture::{DeviceOrdinal, EventFlags};
use gpumem_cuda_abi::CuDevice;

use super::Cause;
use super::holdings::{self, Holding, Kind};
use crate::symbols::driver;

/// The devices that have had a memory node, a bit each.
static DEVICES: AtomicU64 = AtomicU64::new(0);

/// Whether any device has had a memory node.
#[inline]
pub(crate) fn any() -> bool {
    DEVICES.load(Ordering::Relaxed) != 0
}

/// Takes note of a memory node on `device`.
pub(crate) fn used(device: DeviceOrdinal) {
    if device.0 < 64 {
        DEVICES.fetch_or(1 << device.0, Ordering::Release);
    }
}

/// Asks each device for its graphs' figure and records what has changed. As with pools, of threads
/// that settle at once the one that began last records.
pub(crate) fn settle(cause: &Cause<'_>) {
    static BEGUN: AtomicU64 = AtomicU64::new(0);
    let devices = DEVICES.load(Ordering::Acquire);
    if devices == 0 {
        return;
    }
    let ticket = BEGUN.fetch_add(1, Ordering::AcqRel) + 1;
    for ordinal in (0..64u8).filter(|ordinal| devices & (1 << ordinal) != 0) {
        let reserved = driver::graph_reserved(CuDevice(i32::from(ordinal)));
        let holding = Holding {
            kind: Kind::Graphs,
            ptr: 1 + u64::from(ordinal),
        };
        let device = DeviceOrdinal(ordinal);
        // Looked at where no other can record: one that begins later records later.
        let last = || BEGUN.load(Ordering::Acquire) == ticket;
        holdings::resize(cause, device, holding, EventFlags::NONE, |before| {
            reserved.filter(|_| last()).unwrap_or(before)
        });
        if !last() {
            return;
        }
    }
}

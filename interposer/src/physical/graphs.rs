//! What stands behind graphs' memory nodes: one figure for each device, by the driver's own word.

use core::sync::atomic::{AtomicU64, Ordering};

use gpumem_capture::DeviceOrdinal;
use gpumem_cuda_abi::CuDevice;
use gpumem_tracker::Kind;

use super::figure::Figure;
use crate::session::Session;
use crate::{driver, tracked};

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

/// What stands behind each device's graphs, by the driver's word.
pub(super) fn figures(session: &Session) -> Vec<Figure> {
    let devices = DEVICES.load(Ordering::Acquire);
    let used = (0..64u8).filter(|ordinal| devices & (1 << ordinal) != 0);
    let figure = |ordinal: u8| {
        let reservation = Kind::Graphs.of(1 + u64::from(ordinal));
        let asked = driver::graph_reserved(CuDevice(i32::from(ordinal)));
        Figure {
            reservation,
            device: DeviceOrdinal(ordinal),
            bytes: asked
                .or_else(|| Some(tracked::look(session, |tracker| tracker.bytes(reservation)))),
        }
    };
    used.map(figure).collect()
}

//! Which contexts there are, and whether asking something would bring one back.

use core::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::collections::BTreeMap;

use gpumem_capture::DeviceOrdinal;
use gpumem_cuda_abi::{CuDevice, CuGraph, CuStream};

use crate::driver;
use crate::lock::{Guard, Lock};

/// Contexts that `cuCtxCreate` made and their devices, never locked across a driver call.
pub(crate) fn created() -> Guard<'static, BTreeMap<u64, DeviceOrdinal>> {
    static CREATED: Lock<BTreeMap<u64, DeviceOrdinal>> = Lock::new(BTreeMap::new());
    CREATED.lock()
}

/// Whether a current context is a primary one that was reset: its next use brings it back to life.
pub(crate) fn is_inactive(context: u64, device: DeviceOrdinal) -> bool {
    driver::primary_is_active(CuDevice(i32::from(device.0))) == Some(false)
        && !created().contains_key(&context)
}

/// A context whose creation is recorded.
pub(crate) struct Seen {
    /// Its handle; 0 is a free place.
    pub(crate) context: AtomicU64,
    pub(crate) device: AtomicU8,
}

/// The contexts whose creation is recorded. More than these are recorded again.
pub(crate) static SEEN: [Seen; 64] = [const {
    Seen {
        context: AtomicU64::new(0),
        device: AtomicU8::new(0),
    }
}; 64];

/// Whether a context's creation is recorded.
pub(crate) fn is_known(context: u64) -> bool {
    SEEN.iter()
        .any(|place| place.context.load(Ordering::Acquire) == context)
}

/// Takes note of a context; whether it was unknown.
pub(crate) fn is_new(context: u64, device: DeviceOrdinal) -> bool {
    if is_known(context) {
        return false;
    }
    let take = |place: &Seen| {
        let taken = place
            .context
            .compare_exchange(0, context, Ordering::AcqRel, Ordering::Relaxed);
        if taken.is_ok() {
            place.device.store(device.0, Ordering::Release);
        }
        taken.is_ok()
    };
    let _ = SEEN.iter().any(take);
    true
}

/// Whether a stream is being captured into a graph, or still has a capture to end that was spoilt.
pub(crate) fn is_capturing(stream: CuStream) -> bool {
    // The legacy default stream never is; an inactive context, which the question would bring back, has no capture on
    // its threads' own.
    let (place, own) = (stream.0 as usize, CuStream::PER_THREAD.0 as usize);
    let is_idle = || is_inactive(driver::current_context(), driver::current_device());
    place >= own && !(place == own && is_idle()) && driver::is_capturing(stream)
}

/// The graph that a stream is being captured into; null if another call has just spoilt the capture,
/// for what was captured before is not live all the same.
pub(crate) fn captured_graph(stream: CuStream) -> Option<CuGraph> {
    is_capturing(stream).then(|| driver::captured_graph(stream))
}

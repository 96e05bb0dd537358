//! Which contexts there are, and whether asking something would bring one back.

use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::collections::BTreeMap;

use gpumem_capture::DeviceOrdinal;
use gpumem_cuda_abi::{CuDevice, CuGraph, CuStream};

use crate::driver;
use gpumem_capture::writer::lock::{Guard, Lock};

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
struct Seen {
    /// Its handle; 0 is a free place.
    context: AtomicU64,
    device: AtomicU8,
}

/// The contexts whose creation is recorded. More than these are recorded again.
static SEEN: [Seen; 64] = [const {
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

/// The primary context of each device that has ended, by its handle: it may come back to life, unseen, at
/// its first use after a reset.
static ENDED: [AtomicU64; 64] = [const { AtomicU64::new(0) }; 64];
static ANY_ENDED: AtomicBool = AtomicBool::new(false);

/// Whether the primary context of any device has ended and is not known to be back.
#[inline]
pub(crate) fn any_ended() -> bool {
    ANY_ENDED.load(Ordering::Acquire)
}

/// Those contexts and their devices.
pub(crate) fn ended() -> impl Iterator<Item = (u64, DeviceOrdinal)> {
    let places = (0u8..).zip(if any_ended() { &ENDED[..] } else { &[] });
    let context = |(ordinal, place): (u8, &AtomicU64)| {
        (place.load(Ordering::Acquire), DeviceOrdinal(ordinal))
    };
    places.map(context).filter(|(context, _)| *context != 0)
}

/// The primary context of a device has ended.
pub(crate) fn note_ended(context: u64, device: DeviceOrdinal) {
    if let Some(place) = ENDED.get(usize::from(device.0)) {
        place.store(context, Ordering::Release);
        ANY_ENDED.store(true, Ordering::Release);
    }
}

/// The primary context of a device is back. Whether it was known to have ended until now.
pub(crate) fn is_back(device: DeviceOrdinal) -> bool {
    let place = ENDED.get(usize::from(device.0));
    let was_ended = place.is_some_and(|place| place.swap(0, Ordering::AcqRel) != 0);
    if was_ended && ended().next().is_none() {
        ANY_ENDED.store(false, Ordering::Release);
    }
    was_ended
}

/// Forgets the places of the contexts that `wanted` picks, which have ended: they are recorded anew when they are seen.
pub(crate) fn forget(wanted: impl Fn(u64, DeviceOrdinal) -> bool) -> Vec<u64> {
    let gone = SEEN.iter().filter_map(|place| {
        let context = place.context.load(Ordering::Acquire);
        let device = DeviceOrdinal(place.device.load(Ordering::Acquire));
        let is_gone = context != 0 && wanted(context, device);
        is_gone.then(|| {
            place.context.store(0, Ordering::Release);
            context
        })
    });
    gone.collect()
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

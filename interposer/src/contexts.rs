//! Whether a query would activate an inactive context.

use gpumem_capture::DeviceOrdinal;
use gpumem_cuda_abi::{CuDevice, CuGraph, CuStream};

use crate::tracked::look;
use crate::{driver, session};

/// Whether a current context is a primary one that was reset: its next use activates it.
pub(crate) fn is_inactive(context: u64, device: DeviceOrdinal) -> bool {
    let is_created = || {
        let session = session::session();
        session.is_some_and(|session| {
            look(session, |tracker| tracker.created_device(context)).is_some()
        })
    };
    driver::primary_is_active(CuDevice(i32::from(device.0))) == Some(false) && !is_created()
}

/// Whether a stream is being captured into a graph, or has an invalidated capture that must still be ended.
pub(crate) fn is_capturing(stream: CuStream) -> bool {
    // The legacy default stream is never captured. In an inactive context, which the query would activate, the
    // per-thread default stream has no capture.
    let (place, own) = (stream.0 as usize, CuStream::PER_THREAD.0 as usize);
    let is_idle = || is_inactive(driver::current_context(), driver::current_device());
    place >= own && !(place == own && is_idle()) && driver::is_capturing(stream)
}

/// The graph that a stream is being captured into; null if another call has just invalidated the capture, because
/// memory that was captured before is not live.
pub(crate) fn captured_graph(stream: CuStream) -> Option<CuGraph> {
    is_capturing(stream).then(|| driver::captured_graph(stream))
}

//! The current context and device, and queries of contexts and their streams.

use core::ffi::{c_int, c_void};

use gpumem_capture::DeviceOrdinal;
use gpumem_cuda_abi::{CuContext, CuDevice, CuGraph, CuStream};

use super::ask::ask;

/// The current context's handle; 0 without one.
pub(crate) fn current_context() -> u64 {
    let mut context = CuContext::NULL;
    let asked = ask!(c"cuCtxGetCurrent", fn(*mut CuContext), &mut context);
    asked.map_or(0, |()| context.0 as u64)
}

/// The current context's device.
pub(crate) fn current_device() -> DeviceOrdinal {
    let mut device = CuDevice(-1);
    match ask!(c"cuCtxGetDevice", fn(*mut CuDevice), &mut device) {
        Some(()) => ordinal(device),
        None => DeviceOrdinal::NONE,
    }
}

/// A device by its number in the capture.
pub(crate) fn ordinal(device: CuDevice) -> DeviceOrdinal {
    u8::try_from(device.0).map_or(DeviceOrdinal::NONE, DeviceOrdinal)
}

/// Whether the primary context of a device is active.
pub(crate) fn primary_is_active(device: CuDevice) -> Option<bool> {
    let (mut flags, mut active) = (0u32, 0 as c_int);
    ask!(
        c"cuDevicePrimaryCtxGetState",
        fn(CuDevice, *mut u32, *mut c_int),
        device,
        &mut flags,
        &mut active
    )
    .map(|()| active != 0)
}

/// Retains the primary context of a device, which activates it if it is inactive.
pub(crate) fn retain_primary(device: CuDevice) -> Option<()> {
    let mut context = CuContext::NULL;
    ask!(
        c"cuDevicePrimaryCtxRetain",
        fn(*mut CuContext, CuDevice),
        &mut context,
        device
    )
}

/// Releases it.
pub(crate) fn release_primary(device: CuDevice) {
    let _ = ask!(c"cuDevicePrimaryCtxRelease_v2", fn(CuDevice), device);
}

/// The graph that a stream is being captured into; null if another call has just invalidated the capture.
pub(crate) fn captured_graph(stream: CuStream) -> CuGraph {
    let (mut status, mut id, mut graph) = (0 as c_int, 0u64, CuGraph::NULL);
    let _ = ask!(
        c"cuStreamGetCaptureInfo_v2",
        fn(CuStream, *mut c_int, *mut u64, *mut CuGraph, *mut c_void, *mut usize),
        stream,
        &mut status,
        &mut id,
        &mut graph,
        core::ptr::null_mut(),
        core::ptr::null_mut()
    );
    graph
}

/// Whether a stream is being captured into a graph, or has an invalidated capture that must still be ended. The query
/// activates an inactive primary context.
pub(crate) fn is_capturing(stream: CuStream) -> bool {
    let mut status: c_int = 0;
    let asked = ask!(
        c"cuStreamIsCapturing",
        fn(CuStream, *mut c_int),
        stream,
        &mut status
    );
    asked.is_some() && status != 0
}

/// The device that a stream's work runs on; the calling thread may have another context, or none.
pub(crate) fn stream_device(stream: CuStream) -> DeviceOrdinal {
    let is_default = stream.0 as usize <= CuStream::PER_THREAD.0 as usize;
    let mut device = CuDevice(-1);
    let asked = if is_default {
        None
    } else {
        ask!(
            c"cuStreamGetDevice", // since 12.8
            fn(CuStream, *mut CuDevice),
            stream,
            &mut device
        )
    };
    asked.map_or_else(current_device, |()| ordinal(device))
}

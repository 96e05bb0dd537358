//! Registers a callback for each entry of the allocator's trace ([`super::traced`]).

use core::ffi::c_void;

use gpumem_capture::{AllocatorCall, DeviceOrdinal};
use gpumem_torch_abi::{Function, TraceEntry};

use super::found;
use super::record::{Call, record};
use crate::session::{self, Session};

/// Attaches the callback; returns whether that was done now. Must not be called from within the trace.
pub(super) fn attach(session: &Session) -> bool {
    let trace = &session.allocator.trace;
    if !trace.begin() {
        return false;
    }
    let Some((object, method)) = found::attach_trace() else {
        trace.cannot();
        return true;
    };
    type Attach = extern "C-unwind" fn(usize, &mut Function);
    // SAFETY: the address is that of `attachAllocatorTraceTracker(std::function<…>)` of the object's class; a function is
    // passed by its address.
    let attach: Attach = unsafe { core::mem::transmute(method) };
    let mut ours = Function::new([0; 2], traced as *const c_void);
    attach(object, &mut ours);
    trace.begun();
    true
}

/// Called by the allocator for each entry, with its lock of the device held.
extern "C-unwind" fn traced(_: *const c_void, entry: &TraceEntry) {
    let Some(session) = session::session() else {
        return;
    };
    if session.allocator.trace.take(entry) {
        record(AllocatorCall::RELEASED, DeviceOrdinal(entry.device), |_| {
            Call {
                ptr: entry.ptr,
                ..Call::PLAIN
            }
        });
    }
}

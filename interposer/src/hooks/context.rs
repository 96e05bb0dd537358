//! Contexts: their creation, and their ends, which free everything they own.

use core::ffi::{c_int, c_void};

use gpumem_capture::{DeviceOrdinal, EventFlags};
use gpumem_cuda_abi::{CuContext, CuDevice, CuResult};
use gpumem_tracker::{Pending, Seen};

use super::{blocks, contexts_seen, refusals};
use crate::call::Call;
use crate::limit::{self, Takes};
use crate::thread::Thread;
use crate::{driver, evidence, record, session, tracked};

/// Records the release of everything that ends with the primary context of `device`.
fn primary_ending(thread: &Thread, call: &Call, device: DeviceOrdinal) -> Option<Pending> {
    record::without_stacks(thread, call, |tracker, origin| {
        tracker.primary_ending(device, origin)
    })
}

/// Records that a context of a device has ended, with everything that it owned.
fn ended(thread: &Thread, call: &Call, pending: Option<Pending>, device: DeviceOrdinal) {
    if let Some(pending) = pending {
        record::returned(thread, call, pending, true);
    }
    record::settle(thread, call.api());
    evidence::contexts_ended(device);
}

/// Called after a call that released one reference to the primary context of `device`, which was active before: if it
/// was the last, everything that the context owned has ended.
pub(super) fn primary_may_have_ended(thread: &Thread, call: &Call, device: CuDevice) {
    if driver::primary_is_active(device) == Some(false) {
        let device = driver::ordinal(device);
        let pending = primary_ending(thread, call, device);
        ended(thread, call, pending, device);
    }
}

/// Called after a call that creates a context: if it failed with out of memory, records the failure.
fn refused(thread: &Thread, call: &Call, result: CuResult, device: CuDevice) {
    if result != CuResult::OUT_OF_MEMORY {
        return;
    }
    let device = driver::ordinal(device);
    let takes = limit::context_takes(device).unwrap_or(0);
    refusals::refused(thread, call, device, (EventFlags::CONTEXT, takes));
}

hook! {
    /// Activates the primary context at the first call.
    Driver Required
    fn cuDevicePrimaryCtxRetain(context: *mut CuContext, device: CuDevice) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    takes Takes::context(device);
    with call, thread, result, held;
    before {
        let is_new = driver::primary_is_active(device) == Some(false);
        if is_new {
            evidence::before_context(driver::ordinal(device));
        }
        is_new
    }
    after {
        if result.is_success() {
            // SAFETY: the call succeeded, so the driver has just written there.
            let context = unsafe { *context }.0 as u64;
            let device = driver::ordinal(device);
            if held == Some(true) {
                contexts_seen::made(thread, &call, context, device, false);
                evidence::context_seen(thread, &call, device, context, Seen::Made);
            } else {
                // It was activated before, perhaps without being noticed.
                contexts_seen::seen(thread, &call, context, device);
            }
        }
        refused(thread, &call, result, device);
    }
}

macro_rules! primary {
    ($($release:ident $reset:ident $need:ident;)*) => {$(
        hook! {
            /// Ends the primary context at the last call. Whether it is the last is known only
            /// afterwards.
            Driver $need
            fn $release(device: CuDevice) -> CuResult;
            missing CuResult::NOT_INITIALIZED;
            with call, thread, result, held;
            before {
                contexts_seen::in_use(thread, &call);
                driver::primary_is_active(device)
            }
            after {
                if result.is_success() && held == Some(Some(true)) {
                    primary_may_have_ended(thread, &call, device);
                }
            }
        }

        hook! {
            /// Ends the primary context with everything that it owns.
            Driver $need
            fn $reset(device: CuDevice) -> CuResult;
            missing CuResult::NOT_INITIALIZED;
            with call, thread, result, held;
            before {
                contexts_seen::in_use(thread, &call);
                let active = driver::primary_is_active(device) != Some(false);
                active.then(|| primary_ending(thread, &call, driver::ordinal(device))).flatten()
            }
            after {
                match held {
                    Some(Some(pending)) if result.is_success() => {
                        ended(thread, &call, Some(pending), driver::ordinal(device));
                    }
                    held => blocks::ended(&call, thread, result, held),
                }
            }
        }
    )*};
}

primary! {
    cuDevicePrimaryCtxRelease cuDevicePrimaryCtxReset Optional;
    cuDevicePrimaryCtxRelease_v2 cuDevicePrimaryCtxReset_v2 Required;
}

/// Called after a `cuCtxCreate`.
///
/// # Safety
/// If the call succeeded, the driver has just written to `context`.
pub(super) unsafe fn made(
    thread: &Thread,
    call: &Call,
    result: CuResult,
    context: *mut CuContext,
    device: CuDevice,
) {
    if result.is_success() {
        // SAFETY: the caller's promise.
        let context = unsafe { *context };
        let device = driver::ordinal(device);
        contexts_seen::made(thread, call, context.0 as u64, device, true);
        evidence::context_seen(thread, call, device, context.0 as u64, Seen::Made);
        return;
    }
    refused(thread, call, result, device);
}

macro_rules! creating {
    ($($(#[$doc:meta])* $name:ident $need:ident;)*) => {$(
        hook! {
            $(#[$doc])*
            Driver $need
            fn $name(context: *mut CuContext, flags: u32, device: CuDevice) -> CuResult;
            missing CuResult::NOT_INITIALIZED;
            takes Takes::context(device);
            with call, thread, result, held;
            before { evidence::before_context(driver::ordinal(device)) }
            after {
                // SAFETY: the caller's own argument, written if the call succeeded.
                unsafe { made(thread, &call, result, context, device) };
            }
        }
    )*};
}

creating! {
    /// A context of the caller.
    cuCtxCreate_v2 Required;
    /// CUDA 2's form.
    cuCtxCreate Optional;
    /// A context that shares memory with OpenGL.
    cuGLCtxCreate_v2 Optional;
    /// CUDA 2's form.
    cuGLCtxCreate Optional;
}

hook! {
    /// A context of the caller, with execution affinity.
    Driver Optional
    fn cuCtxCreate_v3(
        context: *mut CuContext,
        parameters: *mut c_void,
        count: c_int,
        flags: u32,
        device: CuDevice,
    ) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    takes Takes::context(device);
    with call, thread, result, held;
    before { evidence::before_context(driver::ordinal(device)) }
    after {
        // SAFETY: the caller's own argument, written if the call succeeded.
        unsafe { made(thread, &call, result, context, device) };
    }
}

hook! {
    /// A context of the caller, with CUDA 12.5's parameters.
    Driver Optional
    fn cuCtxCreate_v4(
        context: *mut CuContext,
        parameters: *mut c_void,
        flags: u32,
        device: CuDevice,
    ) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    takes Takes::context(device);
    with call, thread, result, held;
    before { evidence::before_context(driver::ordinal(device)) }
    after {
        // SAFETY: the caller's own argument, written if the call succeeded.
        unsafe { made(thread, &call, result, context, device) };
    }
}

/// The device of a context that is about to end, and what it owns; `None` if the handle is not a known context of the
/// caller.
pub(super) type Ending = Option<(DeviceOrdinal, Pending)>;

/// Records the release of everything that `context` owns, because it is about to end. For an unknown handle nothing is
/// released: it may be another context, whose memory other threads use.
pub(super) fn about_to_end(thread: &Thread, call: &Call, context: CuContext) -> Ending {
    // The memory of a context that was activated without being noticed is not left over from the one that ends.
    contexts_seen::in_use(thread, call);
    let context = context.0 as u64;
    let session = session::session()?;
    let device = tracked::look(session, |tracker| tracker.created_device(context))?;
    let has_primary = driver::primary_is_active(CuDevice(i32::from(device.0))) != Some(false);
    let pending = record::without_stacks(thread, call, |tracker, origin| {
        tracker.context_ending(context, has_primary, origin)
    });
    Some((device, pending??))
}

/// Settles the end of a context by the call's result.
pub(super) fn settle_end(
    thread: &Thread,
    call: &Call,
    context: CuContext,
    result: CuResult,
    ending: Ending,
) {
    match ending {
        Some((device, pending)) if result.is_success() => {
            ended(thread, call, Some(pending), device)
        }
        Some((_, pending)) => record::returned(thread, call, pending, false),
        // A context whose creation was not seen has not been released yet.
        None if result.is_success() => {
            let context = context.0 as u64;
            let device = record::without_stacks(thread, call, |tracker, origin| {
                tracker.unknown_context_ended(context, origin)
            });
            ended(thread, call, None, device.unwrap_or(DeviceOrdinal::NONE));
        }
        None => {}
    }
}

macro_rules! destroying {
    ($($(#[$doc:meta])* $name:ident $need:ident;)*) => {$(
        hook! {
            $(#[$doc])*
            Driver $need
            fn $name(context: CuContext) -> CuResult;
            missing CuResult::NOT_INITIALIZED;
            with call, thread, result, held;
            before { about_to_end(thread, &call, context) }
            after {
                if let Some(ending) = held {
                    settle_end(thread, &call, context, result, ending);
                }
            }
        }
    )*};
}

destroying! {
    /// Ends a context with everything that it owns.
    cuCtxDestroy_v2 Required;
    /// CUDA 2's form.
    cuCtxDestroy Optional;
}

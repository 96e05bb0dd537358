//! Green contexts: parts of a device's multiprocessors, over the primary context. Memory that is allocated
//! in one belongs to the primary context, which it retains while it exists.

use core::ffi::c_void;

use gpumem_capture::DeviceOrdinal;
use gpumem_cuda_abi::{CuContext, CuDevice, CuGreenCtx, CuResult};
use gpumem_tracker::Seen;

use super::{context, contexts_seen};
use crate::limit::Takes;
use crate::{contexts, driver, evidence, record, session, tracked};

/// The device of a green context, if it is known.
fn device_of(green: CuGreenCtx) -> Option<DeviceOrdinal> {
    let session = session::session()?;
    tracked::look(session, |tracker| tracker.part_device(green.0 as u64))
}

hook! {
    /// A part of a device.
    Driver Optional
    fn cuGreenCtxCreate(
        context: *mut CuGreenCtx,
        resources: *mut c_void,
        device: CuDevice,
        flags: u32,
    ) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    takes Takes::context(device);
    with call, thread, result, held;
    before {
        contexts_seen::in_use(thread, &call);
        evidence::before_context(driver::ordinal(device));
    }
    after {
        if result.is_success() {
            // SAFETY: the call succeeded, so the driver has just written there.
            let context = unsafe { (*context).0 as u64 };
            let ordinal = driver::ordinal(device);
            record::with_stacks(thread, &call, ordinal, |tracker, origin| {
                tracker.part_made(context, ordinal, call.caller(), origin);
            });
            // It may have activated the primary context: the memory is charged to that one.
            evidence::context_seen(thread, &call, ordinal, context, Seen::Part);
            contexts_seen::in_use(thread, &call);
        }
    }
}

hook! {
    /// A green context as a context that can be made current.
    Driver Optional
    fn cuCtxFromGreenCtx(context: *mut CuContext, green: CuGreenCtx) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    with call, thread, result, held;
    before {}
    after {
        if result.is_success() {
            // SAFETY: the call succeeded, so the driver has just written there.
            let context = unsafe { (*context).0 as u64 };
            let device = device_of(green).unwrap_or(DeviceOrdinal::NONE);
            // This call does not activate a context that was reset: its next use does.
            if !contexts::is_inactive(context, device) {
                contexts_seen::seen(thread, &call, context, device);
            }
        }
    }
}

hook! {
    /// Ends a green context, and with the last reference the primary context.
    Driver Optional
    fn cuGreenCtxDestroy(green: CuGreenCtx) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    with call, thread, result, held;
    before {
        contexts_seen::in_use(thread, &call);
        let device = device_of(green).map(|device| CuDevice(i32::from(device.0)));
        device.map(|device| (device, driver::primary_is_active(device)))
    }
    after {
        if let (Some(Some((device, active))), true) = (held, result.is_success()) {
            record::without_stacks(thread, &call, |tracker, origin| {
                tracker.part_ended(green.0 as u64, origin);
            });
            if active == Some(true) {
                context::primary_may_have_ended(thread, &call, device);
            }
        }
    }
}

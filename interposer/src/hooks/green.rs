//! Green contexts: parts of a device's multiprocessors, over the primary context. What is allocated in one
//! belongs to the primary context, which it holds while it lives.

use core::ffi::c_void;
use std::collections::BTreeMap;

use gpumem_capture::{DeviceOrdinal, EventKind, Level};
use gpumem_cuda_abi::{CuContext, CuDevice, CuGreenCtx, CuResult};
use gpumem_tracker::Seen;

use super::{context, contexts_seen};
use crate::call::Call;
use crate::limit::Takes;
use crate::sideband::{self, Sideband};
use crate::thread::Thread;
use crate::{contexts, driver, evidence};
use gpumem_capture::writer::lock::{Guard, Lock};

/// The green contexts and their devices, never locked across a driver call.
fn created() -> Guard<'static, BTreeMap<u64, CuDevice>> {
    static CREATED: Lock<BTreeMap<u64, CuDevice>> = Lock::new(BTreeMap::new());
    CREATED.lock()
}

fn remark(thread: &Thread, call: &Call, kind: EventKind, context: u64, device: DeviceOrdinal) {
    let begins = kind == EventKind::CONTEXT;
    let what = Sideband {
        ptr: context,
        aux: if begins { call.caller() } else { 0 },
        device,
        with_stacks: begins,
        ..Sideband::default()
    };
    sideband::record(thread, call.api(), kind, Level::DRIVER, what);
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
            created().insert(context, device);
            let ordinal = driver::ordinal(device);
            remark(thread, &call, EventKind::CONTEXT, context, ordinal);
            // It may have brought the primary context to life: what it took goes with that one.
            evidence::context_seen(thread, &call, ordinal, context, Seen::Part);
            contexts_seen::in_use(thread, &call);
        }
    }
}

hook! {
    /// Such a part as a context that can be made current.
    Driver Optional
    fn cuCtxFromGreenCtx(context: *mut CuContext, green: CuGreenCtx) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    with call, thread, result, held;
    before {}
    after {
        if result.is_success() {
            // SAFETY: the call succeeded, so the driver has just written there.
            let context = unsafe { (*context).0 as u64 };
            let device = created().get(&(green.0 as u64)).map(|device| driver::ordinal(*device));
            let device = device.unwrap_or(DeviceOrdinal::NONE);
            // Asking for one that was reset does not bring it back to life: its next use does.
            if !contexts::is_inactive(context, device) {
                contexts_seen::seen(thread, &call, context, device);
            }
        }
    }
}

hook! {
    /// Ends such a part, and with the last hold the primary context.
    Driver Optional
    fn cuGreenCtxDestroy(green: CuGreenCtx) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    with call, thread, result, held;
    before {
        contexts_seen::in_use(thread, &call);
        let device = created().get(&(green.0 as u64)).copied();
        device.map(|device| (device, driver::primary_is_active(device)))
    }
    after {
        if let (Some(Some((device, active))), true) = (held, result.is_success()) {
            created().remove(&(green.0 as u64));
            let ordinal = driver::ordinal(device);
            remark(thread, &call, EventKind::CONTEXT_END, green.0 as u64, ordinal);
            if active == Some(true) {
                context::primary_may_have_ended(thread, &call, device);
            }
        }
    }
}

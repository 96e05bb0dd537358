//! Contexts that share memory with VDPAU, and reference-counted contexts from before CUDA 4.

use core::ffi::c_void;

use gpumem_cuda_abi::{CuContext, CuDevice, CuResult};

use gpumem_tracker::Tracker;

use super::{context, contexts_seen};
use crate::limit::Takes;
use crate::{driver, evidence, record};

macro_rules! vdpau {
    ($($name:ident;)*) => {$(
        hook! {
            /// A context that shares memory with VDPAU.
            Driver Optional
            fn $name(
                context: *mut CuContext,
                flags: u32,
                device: CuDevice,
                vdpau_device: u32,
                vdpau: *mut c_void,
            ) -> CuResult;
            missing CuResult::NOT_INITIALIZED;
            takes Takes::context(device);
            with call, thread, result, held;
            before { evidence::before_context(driver::ordinal(device)) }
            after {
                // SAFETY: the caller's own argument, written if the call succeeded.
                unsafe { context::made(thread, &call, result, context, device) };
            }
        }
    )*};
}

vdpau! {
    cuVDPAUCtxCreate_v2;
    cuVDPAUCtxCreate;
}

hook! {
    /// Adds a reference to the current context.
    Driver Optional
    fn cuCtxAttach(context: *mut CuContext, flags: u32) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    with call, thread, result, held;
    before {}
    after {
        if result.is_success() {
            // SAFETY: the call succeeded, so the driver has just written there.
            let context = unsafe { (*context).0 as u64 };
            // It may have activated a primary context.
            contexts_seen::in_use(thread, &call);
            record::without_stacks(thread, &call, |tracker, _| tracker.attached(context));
        }
    }
}

hook! {
    /// Removes a reference; the last one ends the context.
    Driver Optional
    fn cuCtxDetach(context: CuContext) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    with call, thread, result, held;
    before {
        let is_held = |tracker: &mut Tracker, _| tracker.is_attached(context.0 as u64);
        let is_last = record::without_stacks(thread, &call, is_held) != Some(true);
        is_last.then(|| context::about_to_end(thread, &call, context))
    }
    after {
        match held {
            Some(Some(ending)) => {
                context::settle_end(thread, &call, context, result, ending);
            }
            Some(None) if result.is_success() => {
                record::without_stacks(thread, &call, |tracker, _| tracker.detached(context.0 as u64));
            }
            _ => {}
        }
    }
}

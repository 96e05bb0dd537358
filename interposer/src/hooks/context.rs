//! Contexts: their births, and their ends, which take what they own with them.

use core::ffi::{c_int, c_void};

use gpumem_capture::{DeviceOrdinal, EventFlags, EventKind, Level};
use gpumem_cuda_abi::{CuContext, CuDevice, CuResult};

use gpumem_tracker::{Ended, Seen};

use super::{attached, contexts_seen, handles};
use crate::call::Call;
use crate::contexts::{self, created, is_new};
use crate::failed::Failed;
use crate::limit::{self, Takes};
use crate::record::{self, Released};
use crate::sideband::{self, Sideband};
use crate::thread::Thread;
use crate::{aliases, driver, evidence};

/// Records the end of a context; 0 is the primary one.
fn ended(thread: &Thread, call: &Call, context: u64, device: DeviceOrdinal) {
    let others = created().clone();
    attached::forget(context);
    // The primary context's handle is not told at its end: it is the one that nobody created.
    let is_primary = |known: u64, of| context == 0 && of == device && !others.contains_key(&known);
    for known in contexts::forget(|known, of| known == context || is_primary(known, of)) {
        attached::forget(known);
        if context == 0 {
            contexts::note_ended(known, device);
        }
    }
    let flags = EventFlags::RESET;
    let what = Sideband {
        ptr: context,
        device,
        flags,
        ..Sideband::default()
    };
    sideband::record(
        thread,
        call.api(),
        EventKind::CONTEXT_END,
        Level::DRIVER,
        what,
    );
}

/// What ends with a context, should it not end.
struct Taken {
    released: Vec<Released>,
    ended: Option<Ended>,
    /// Whether the device has no other: what belongs to it alone ends too (pools, physical handles).
    last: bool,
}

/// Records the release of all that ends with the primary context of `device`.
fn release_primary(thread: &Thread, call: &Call, device: DeviceOrdinal) -> Taken {
    let others = created().clone();
    let last = !others.values().any(|&d| d == device);
    let released = record::releasing_all(thread, call.api(), |place, block| {
        block.device == device
            && place.level != Level::TENSOR
            && match block.owner() {
                0 => last,
                owner => !others.contains_key(&owner),
            }
    });
    let ended = evidence::contexts_ending(thread, call, device, |context| {
        !others.contains_key(&context)
    });
    Taken {
        released,
        ended,
        last,
    }
}

/// The same of a context of the caller's own, which is in `created` no more.
fn release_created(thread: &Thread, call: &Call, context: u64, device: DeviceOrdinal) -> Taken {
    let has_other = created().values().any(|&d| d == device);
    let last =
        !has_other && driver::primary_is_active(CuDevice(i32::from(device.0))) == Some(false);
    let released = record::releasing_all(thread, call.api(), |place, block| {
        place.level != Level::TENSOR
            && match block.owner() {
                0 => last && block.device == device,
                owner => owner == context,
            }
    });
    let ended = evidence::contexts_ending(thread, call, device, |ending| ending == context);
    Taken {
        released,
        ended,
        last,
    }
}

/// After the primary context of `device` has ended and the release of what it owned is recorded;
/// `last`: the device has no other context.
fn primary_ended(thread: &Thread, call: &Call, device: DeviceOrdinal, last: bool) {
    if last {
        handles::forget(thread, call, device);
    }
    let others = created().clone();
    aliases::end_all(thread, call.api(), |alias| {
        alias.device == device && alias.context != 0 && !others.contains_key(&alias.context)
    });
    ended(thread, call, 0, device);
    record::settle(thread, call.api());
    evidence::contexts_ended(device);
}

/// After a call that gave up one hold on the primary context of `device`, which was alive before: if it
/// was the last, all that the context owned has ended.
pub(super) fn primary_may_have_ended(thread: &Thread, call: &Call, device: CuDevice) {
    if driver::primary_is_active(device) == Some(false) {
        let device = driver::ordinal(device);
        let last = release_primary(thread, call, device).last;
        primary_ended(thread, call, device, last);
    }
}

fn undo(thread: &Thread, call: &Call, taken: Taken) {
    for one in taken.released {
        record::cancel(thread, call.api(), one);
    }
    if let Some(ended) = taken.ended {
        evidence::restore(thread, call, ended);
    }
}

/// After a call that was to make a context: if it failed for want of memory, that is recorded.
fn refused(thread: &Thread, call: &Call, result: CuResult, device: CuDevice) {
    if result != CuResult::OUT_OF_MEMORY {
        return;
    }
    let device = driver::ordinal(device);
    let failed = Failed {
        api: call.api(),
        level: Level::PHYSICAL,
        device,
        bytes: limit::context_takes(device).unwrap_or(0),
        framework: None,
        caller: call.caller(),
    };
    record::out_of_memory(thread, failed, 0);
}

hook! {
    /// Brings the primary context to life at the first call.
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
        if result.is_success() && held == Some(true) {
            // SAFETY: the call succeeded, so the driver has just written there.
            let context = unsafe { *context }.0 as u64;
            let device = driver::ordinal(device);
            is_new(context, device);
            contexts::is_back(device);
            contexts_seen::made(thread, &call, context, device);
            evidence::context_seen(thread, &call, device, context, Seen::Made);
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
            /// Ends the primary context with all that it owns.
            Driver $need
            fn $reset(device: CuDevice) -> CuResult;
            missing CuResult::NOT_INITIALIZED;
            with call, thread, result, held;
            before {
                contexts_seen::in_use(thread, &call);
                let active = driver::primary_is_active(device) != Some(false);
                active.then(|| release_primary(thread, &call, driver::ordinal(device)))
            }
            after {
                if let Some(Some(taken)) = held {
                    if result.is_success() {
                        primary_ended(thread, &call, driver::ordinal(device), taken.last);
                    } else {
                        undo(thread, &call, taken);
                    }
                }
            }
        }
    )*};
}

primary! {
    cuDevicePrimaryCtxRelease cuDevicePrimaryCtxReset Optional;
    cuDevicePrimaryCtxRelease_v2 cuDevicePrimaryCtxReset_v2 Required;
}

/// After a `cuCtxCreate`.
///
/// # Safety
/// If the call succeeded, `context` is what the driver has just written to.
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
        created().insert(context.0 as u64, device);
        is_new(context.0 as u64, device);
        contexts_seen::made(thread, call, context.0 as u64, device);
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
    /// A context of the caller's own.
    cuCtxCreate_v2 Required;
    /// CUDA 2's form.
    cuCtxCreate Optional;
    /// A context that shares memory with OpenGL.
    cuGLCtxCreate_v2 Optional;
    /// CUDA 2's form.
    cuGLCtxCreate Optional;
}

hook! {
    /// A context of the caller's own, with execution affinity.
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
    /// A context of the caller's own, with CUDA 12.5's parameters.
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

/// A context of the caller's own that is about to end, should that have to be undone.
pub(super) struct Ending {
    context: u64,
    /// Its device and what it owns; `None` of a handle that is no such context as far as we know.
    known: Option<(DeviceOrdinal, Taken)>,
}

/// Records the release of all that `context` owns: it is about to end. Of a handle that is not known
/// nothing is taken: it may be another context, whose memory other threads use.
pub(super) fn about_to_end(thread: &Thread, call: &Call, context: CuContext) -> Ending {
    let context = context.0 as u64;
    let device = created().remove(&context);
    let known = device.map(|device| (device, release_created(thread, call, context, device)));
    Ending { context, known }
}

/// Settles the end of a context by the call's result.
pub(super) fn settle_end(thread: &Thread, call: &Call, succeeded: bool, ending: Ending) {
    let Ending { context, known } = ending;
    match known {
        Some((device, taken)) if !succeeded => {
            created().insert(context, device);
            undo(thread, call, taken);
        }
        _ if succeeded => {
            // One that was made unseen has not been taken from yet.
            let (device, taken) = known.unwrap_or_else(|| {
                let none = DeviceOrdinal::NONE;
                (none, release_created(thread, call, context, none))
            });
            if taken.last {
                handles::forget(thread, call, device);
            }
            aliases::end_all(thread, call.api(), |alias| alias.context == context);
            ended(thread, call, context, device);
            record::settle(thread, call.api());
            evidence::contexts_ended(device);
        }
        _ => {}
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
                    settle_end(thread, &call, result.is_success(), ending);
                }
            }
        }
    )*};
}

destroying! {
    /// Ends a context with all that it owns.
    cuCtxDestroy_v2 Required;
    /// CUDA 2's form.
    cuCtxDestroy Optional;
}

//! Forms of before CUDA 3.2, with pointers and sizes of 32 bits, and contexts that are shared by counting.
//! Drivers still export them.

use core::ffi::c_void;
use std::collections::BTreeMap;

use gpumem_capture::{EventFlags, Level};
use gpumem_cuda_abi::{
    CuArray, CuArray3dDescriptor, CuArray3dDescriptorV1, CuArrayDescriptorV1, CuContext, CuDevice,
    CuResult,
};

use super::memory::{device, pinned};
use super::{arrays, context, seen};
use crate::limit::Takes;
use crate::lock::{Guard, Lock};
use crate::nvml::implicit;
use crate::symbols::driver;

hook! {
    /// Device memory.
    Driver Optional
    fn cuMemAlloc(pointer: *mut u32, bytes: u32) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    takes Takes::here(bytes.into());
    with call, thread, result, held;
    before {}
    after {
        let asked = device(bytes.into(), EventFlags::NONE);
        // SAFETY: the call succeeded, so the driver has just written there.
        seen::asked_for(&call, thread, result.0, asked, || unsafe { *pointer }.into());
    }
}

hook! {
    /// Rows of device memory: pitch × height bytes.
    Driver Optional
    fn cuMemAllocPitch(
        pointer: *mut u32,
        pitch: *mut u32,
        width: u32,
        height: u32,
        element: u32,
    ) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    takes Takes::rows(width.into(), height.into());
    with call, thread, result, held;
    before {}
    after {
        // SAFETY: the call succeeded, so the driver has just written the pitch.
        let row = if result.is_success() { unsafe { *pitch } } else { width };
        let asked = device(u64::from(row) * u64::from(height), EventFlags::NONE);
        // SAFETY: as above, of the pointer.
        seen::asked_for(&call, thread, result.0, asked, || unsafe { *pointer }.into());
    }
}

hook! {
    /// Releases device memory.
    Driver Optional
    fn cuMemFree(pointer: u32) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    with call, thread, result, held;
    before {
        let pointer = pointer.into();
        seen::about_to_release(&mut call, thread, Level::DRIVER, pointer, EventFlags::NONE)
    }
    after { seen::released(&call, thread, result.0, held); }
}

hook! {
    /// Pinned host memory.
    Driver Optional
    fn cuMemAllocHost(pointer: *mut *mut c_void, bytes: u32) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    with call, thread, result, held;
    before {}
    after {
        // SAFETY: the call succeeded, so the driver has just written there.
        seen::asked_for(&call, thread, result.0, pinned(bytes.into()), || unsafe {
            *pointer as u64
        });
    }
}

/// An old descriptor of two dimensions as one of today's.
fn flat(old: &CuArrayDescriptorV1) -> CuArray3dDescriptor {
    CuArray3dDescriptor {
        width: old.width as usize,
        height: old.height as usize,
        depth: 0,
        format: old.format,
        num_channels: old.num_channels,
        flags: 0,
    }
}

/// An old descriptor of three dimensions as one of today's.
fn solid(old: &CuArray3dDescriptorV1) -> CuArray3dDescriptor {
    CuArray3dDescriptor {
        width: old.width as usize,
        height: old.height as usize,
        depth: old.depth as usize,
        format: old.format,
        num_channels: old.num_channels,
        flags: old.flags,
    }
}

hook! {
    /// An array of one or two dimensions.
    Driver Optional
    fn cuArrayCreate(array: *mut CuArray, descriptor: *const CuArrayDescriptorV1) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    takes {
        // SAFETY: null, or a structure that the driver is about to read.
        arrays::taken_by(unsafe { descriptor.as_ref() }.map(flat), 1)
    };
    with call, thread, result, held;
    before {}
    after {
        // SAFETY: null, or the structure that the driver has just read.
        if let Some(old) = unsafe { descriptor.as_ref() } {
            let descriptor = flat(old);
            // SAFETY: the call succeeded, so the driver has just written there.
            arrays::made(&call, thread, result.0, &descriptor, 1, || unsafe { (*array).0 as u64 });
        }
    }
}

hook! {
    /// An array of up to three dimensions.
    Driver Optional
    fn cuArray3DCreate(array: *mut CuArray, descriptor: *const CuArray3dDescriptorV1) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    takes {
        // SAFETY: null, or a structure that the driver is about to read.
        arrays::taken_by(unsafe { descriptor.as_ref() }.map(solid), 1)
    };
    with call, thread, result, held;
    before {}
    after {
        // SAFETY: null, or the structure that the driver has just read.
        if let Some(old) = unsafe { descriptor.as_ref() } {
            let descriptor = solid(old);
            // SAFETY: the call succeeded, so the driver has just written there.
            arrays::made(&call, thread, result.0, &descriptor, 1, || unsafe { (*array).0 as u64 });
        }
    }
}

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
            before { implicit::before_birth(driver::ordinal(device)) }
            after {
                // SAFETY: the caller's own argument, written if the call succeeded.
                unsafe { context::made(thread, &call, result, context, device, held.flatten()) };
            }
        }
    )*};
}

vdpau! {
    cuVDPAUCtxCreate_v2;
    cuVDPAUCtxCreate;
}

/// How often each context was attached to, beyond its birth, never locked across a driver call.
fn attached() -> Guard<'static, BTreeMap<u64, u32>> {
    static ATTACHED: Lock<BTreeMap<u64, u32>> = Lock::new(BTreeMap::new());
    ATTACHED.lock()
}

/// Forgets the holds on a context that has ended.
pub(super) fn forget(context: u64) {
    attached().remove(&context);
}

hook! {
    /// One hold more on the current context.
    Driver Optional
    fn cuCtxAttach(context: *mut CuContext, flags: u32) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    with call, thread, result, held;
    before {}
    after {
        if result.is_success() {
            // SAFETY: the call succeeded, so the driver has just written there.
            let held = unsafe { (*context).0 as u64 };
            *attached().entry(held).or_insert(0) += 1;
            // It may have brought a primary context back to life.
            context::in_use(thread, &call);
        }
    }
}

hook! {
    /// One hold less; with the last the context ends.
    Driver Optional
    fn cuCtxDetach(context: CuContext) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    with call, thread, result, held;
    before {
        let last = !attached().contains_key(&(context.0 as u64));
        last.then(|| context::about_to_end(thread, &call, context))
    }
    after {
        match held {
            Some(Some(ending)) => {
                context::settle_end(thread, &call, result.is_success(), ending);
            }
            Some(None) if result.is_success() => {
                let (context, mut attached) = (context.0 as u64, attached());
                if let Some(count) = attached.get_mut(&context) {
                    *count -= 1;
                    if *count == 0 {
                        attached.remove(&context);
                    }
                }
            }
            _ => {}
        }
    }
}

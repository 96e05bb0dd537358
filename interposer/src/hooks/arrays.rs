//! Arrays and mipmapped arrays. They have no address that is visible to programs and are identified by
//! their handle.

use gpumem_capture::{EventFlags, Level};
use gpumem_cuda_abi::{
    CuArray, CuArray3dDescriptor, CuArrayDescriptor, CuMipmappedArray, CuResult,
};

use super::array_size;
use super::blocks::{self, Request, Source};
use crate::account;
use crate::call::Call;
use crate::limit::Takes;
use crate::thread::Thread;

/// A descriptor of two dimensions as one of three.
pub(super) fn in_3d(flat: &CuArrayDescriptor) -> CuArray3dDescriptor {
    CuArray3dDescriptor {
        width: flat.width,
        height: flat.height,
        depth: 0,
        format: flat.format,
        num_channels: flat.num_channels,
        flags: 0,
    }
}

/// The maximum size of an array, which the driver may pad.
pub(super) fn taken_by(descriptor: Option<CuArray3dDescriptor>, levels: u32) -> Takes {
    let bytes = descriptor.map(|array| match array_size::is_sparse(array.flags) {
        true => 0,
        false => array_size::mipmapped(&array, levels).unwrap_or(u64::MAX),
    });
    Takes::here(bytes.unwrap_or(0).saturating_mul(2))
}

/// Records the result of a call that creates an array.
pub(super) fn made(
    call: &Call,
    thread: &Thread,
    result: u32,
    descriptor: &CuArray3dDescriptor,
    levels: u32,
    handle: impl FnOnce() -> u64,
) {
    let (bytes, unknown): (_, fn()) = match array_size::mipmapped(descriptor, levels) {
        _ if array_size::is_sparse(descriptor.flags) => (0, account::sparse_array),
        Some(bytes) => (bytes, || {}),
        None => (0, account::unknown_array),
    };
    if result == 0 && !call.inner_allocated() {
        unknown();
    }
    let asked = Request {
        level: Level::DRIVER,
        bytes,
        source: Source::Context,
        flags: EventFlags::ARRAY,
    };
    blocks::requested(call, thread, result, asked, handle);
}

hook! {
    /// An array of one or two dimensions.
    Driver Required
    fn cuArrayCreate_v2(array: *mut CuArray, descriptor: *const CuArrayDescriptor) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    takes {
        // SAFETY: null, or a structure that the driver is about to read.
        taken_by(unsafe { descriptor.as_ref() }.map(in_3d), 1)
    };
    with call, thread, result, held;
    before {}
    after {
        // SAFETY: null, or the structure that the driver has just read.
        if let Some(descriptor) = unsafe { descriptor.as_ref() } {
            // SAFETY: the call succeeded, so the driver has just written there.
            made(&call, thread, result.0, &in_3d(descriptor), 1, || unsafe { (*array).0 as u64 });
        }
    }
}

hook! {
    /// An array of up to three dimensions, or of layers.
    Driver Required
    fn cuArray3DCreate_v2(array: *mut CuArray, descriptor: *const CuArray3dDescriptor) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    takes {
        // SAFETY: null, or a structure that the driver is about to read.
        taken_by(unsafe { descriptor.as_ref() }.copied(), 1)
    };
    with call, thread, result, held;
    before {}
    after {
        // SAFETY: null, or the structure that the driver has just read.
        if let Some(descriptor) = unsafe { descriptor.as_ref() } {
            // SAFETY: the call succeeded, so the driver has just written there.
            made(&call, thread, result.0, descriptor, 1, || unsafe { (*array).0 as u64 });
        }
    }
}

hook! {
    /// An array with smaller levels of itself.
    Driver Required
    fn cuMipmappedArrayCreate(
        array: *mut CuMipmappedArray,
        descriptor: *const CuArray3dDescriptor,
        levels: u32,
    ) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    takes {
        // SAFETY: null, or a structure that the driver is about to read.
        taken_by(unsafe { descriptor.as_ref() }.copied(), levels)
    };
    with call, thread, result, held;
    before {}
    after {
        // SAFETY: null, or the structure that the driver has just read.
        if let Some(descriptor) = unsafe { descriptor.as_ref() } {
            // SAFETY: the call succeeded, so the driver has just written there.
            made(&call, thread, result.0, descriptor, levels, || unsafe { (*array).0 as u64 });
        }
    }
}

macro_rules! destroying {
    ($($(#[$doc:meta])* $name:ident($array:ident: $type:ty);)*) => {$(
        hook! {
            $(#[$doc])*
            Driver Required
            fn $name($array: $type) -> CuResult;
            missing CuResult::NOT_INITIALIZED;
            with call, thread, result, held;
            before {
                let handle = $array.0 as u64;
                blocks::releasing(&mut call, thread, Level::DRIVER, handle, EventFlags::ARRAY)
            }
            after { blocks::released(&call, thread, result.0, held); }
        }
    )*};
}

destroying! {
    /// Releases an array.
    cuArrayDestroy(array: CuArray);
    /// Releases a mipmapped array with all its levels, or one that was mapped from outside.
    cuMipmappedArrayDestroy(array: CuMipmappedArray);
}

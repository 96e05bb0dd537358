//! Arrays and mipmapped arrays. They have no address that a program could see: their handle stands for
//! them.

use core::hash::BuildHasherDefault;
use std::sync::OnceLock;

use dashmap::DashMap;
use gpumem_capture::{DeviceOrdinal, EventFlags, Level};
use gpumem_cuda_abi::{
    CuArray, CuArray3dDescriptor, CuArrayDescriptor, CuMipmappedArray, CuResult,
};
use rustc_hash::FxHasher;

use super::seen::{self, Asked, Owner};
use super::{array_size, tiles};
use crate::account;
use crate::call::Call;
use crate::driver;
use crate::limit::Takes;
use crate::thread::Thread;

/// An array whose memory is mapped later.
#[derive(Clone, Copy, Debug)]
pub(super) struct MappedLater {
    pub(super) descriptor: CuArray3dDescriptor,
    /// Bytes of all of it.
    pub(super) bytes: u64,
    /// The context that it belongs to, and its device.
    pub(super) context: u64,
    pub(super) device: DeviceOrdinal,
}

type Later = DashMap<u64, MappedLater, BuildHasherDefault<FxHasher>>;

/// The arrays whose memory is mapped later, by handle.
pub(super) fn mapped_later() -> &'static Later {
    static LATER: OnceLock<Later> = OnceLock::new();
    LATER.get_or_init(Later::default)
}

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

/// The most that an array takes, which the driver may pad.
pub(super) fn taken_by(descriptor: Option<CuArray3dDescriptor>, levels: u32) -> Takes {
    let bytes = descriptor.map(|array| match array_size::is_mapped_later(array.flags) {
        true => 0,
        false => array_size::mipmapped(&array, levels).unwrap_or(u64::MAX),
    });
    Takes::here(bytes.unwrap_or(0).saturating_mul(2))
}

/// Records what became of a call that makes an array.
pub(super) fn made(
    call: &Call,
    thread: &Thread,
    result: u32,
    descriptor: &CuArray3dDescriptor,
    levels: u32,
    handle: impl FnOnce() -> u64,
) {
    let later = array_size::is_mapped_later(descriptor.flags);
    let whole = array_size::mipmapped(descriptor, levels);
    let bytes = match whole {
        _ if later => 0,
        Some(bytes) => bytes,
        None => {
            if result == 0 && !call.inner_allocated() {
                account::unknown_array();
            }
            0
        }
    };
    let asked = Asked {
        level: Level::DRIVER,
        bytes,
        owner: Owner::Context,
        flags: EventFlags::ARRAY,
    };
    seen::asked_for(call, thread, result, asked, || {
        let handle = handle();
        if later {
            let array = MappedLater {
                descriptor: *descriptor,
                bytes: whole.unwrap_or(0),
                context: driver::current_context(),
                device: driver::current_device(),
            };
            mapped_later().insert(handle, array);
        }
        handle
    });
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
                let released = seen::about_to_release(
                    &mut call, thread, Level::DRIVER, handle, EventFlags::ARRAY,
                );
                let later = mapped_later().contains_key(&handle);
                (released, later.then(|| tiles::about_to_end(thread, &call, handle)))
            }
            after {
                let (released, cleared) = held.unzip();
                if result.is_success() {
                    mapped_later().remove(&($array.0 as u64));
                } else if let Some(Some(cleared)) = cleared {
                    cleared.undo(thread, &call);
                }
                seen::released(&call, thread, result.0, released);
            }
        }
    )*};
}

destroying! {
    /// Releases an array.
    cuArrayDestroy(array: CuArray);
    /// Releases a mipmapped array with all its levels, or one that was mapped from outside.
    cuMipmappedArrayDestroy(array: CuMipmappedArray);
}

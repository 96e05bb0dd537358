//! PyTorch's reports of its caching allocator: every tensor's block, in every form that the reporter
//! has had (1.8 to 2.15). They are called under the allocator's lock of the device, with or without
//! the GIL.

#![allow(clippy::unused_unit)] // the macro asks for every return type

use core::ffi::c_void;

use gpumem_capture::{ApiId, DeviceOrdinal, EventFlags, Level};

use crate::live;
use crate::postmortem::Failed;
use crate::record::{self, New};
use crate::thread::Thread;
use crate::workspace;

/// `c10::Device` as it is passed: the type in the low byte, the index in the next.
#[derive(Clone, Copy)]
struct Device(u16);

impl Device {
    /// The ordinal of a CUDA device; None for any other.
    fn cuda(self) -> Option<DeviceOrdinal> {
        const CUDA: u8 = 1;
        let [kind, index] = self.0.to_le_bytes();
        (kind == CUDA && index & 0x80 == 0).then_some(DeviceOrdinal(index))
    }
}

/// Flags of an event after which PyTorch counts `allocated` bytes and we count `ours`.
fn agreement(ours: u64, allocated: Option<u64>) -> EventFlags {
    match allocated {
        Some(theirs) if theirs != ours => EventFlags::MISMATCH,
        _ => EventFlags::NONE,
    }
}

/// Records one report: `size` bytes handed out if positive, given back if negative.
fn reported(
    thread: &Thread,
    api: ApiId,
    ptr: u64,
    size: i64,
    device: Device,
    figures: Option<(u64, u64)>,
) {
    let Some(device) = device.cuda() else { return };
    if size == 0 || ptr == 0 {
        return;
    }
    // What was last touched by the thread that added the tensor comes while the stacks are taken.
    live::expect_tensor(ptr);
    let counted = record::live_bytes(device, Level::TENSOR);
    let (allocated, reserved) = (figures.map(|f| f.0), figures.map_or(0, |f| f.1));
    let bytes = size.unsigned_abs();
    if size > 0 {
        let flags = agreement(counted.wrapping_add(bytes), allocated).with(workspace::flag());
        let new = New {
            level: Level::TENSOR,
            ptr,
            bytes,
            device,
            context: 0,
            flags,
            aux: reserved,
        };
        record::allocated(thread, api, new);
    } else {
        let flags = agreement(counted.wrapping_sub(bytes), allocated);
        if let Some(released) = record::releasing(thread, api, Level::TENSOR, ptr, flags, reserved)
        {
            record::done(thread, api, released);
        }
    }
}

macro_rules! reports {
    ($($(#[$doc:meta])* $name:ident($figure:ty);)*) => {$(
        hook! {
            $(#[$doc])*
            PyTorch Optional
            fn $name(
                ptr: *mut c_void,
                size: i64,
                allocated: $figure,
                reserved: $figure,
                device: u16,
            ) -> ();
            missing ();
            with call, thread, result, held;
            before {
                let figures = Some((allocated as u64, reserved as u64));
                reported(thread, call.api(), ptr as u64, size, Device(device), figures);
            }
        }
    )*};
}

reports! {
    /// PyTorch 2.0 to 2.15.
    _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(u64);
    /// PyTorch 1.10 to 1.13.
    _ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE(i64);
}

hook! {
    /// PyTorch 1.8 and 1.9: `ptr` is the allocator's block, not the data, and no figures come along.
    PyTorch Optional
    fn _ZN3c1027reportMemoryUsageToProfilerEPvlNS_6DeviceE(
        ptr: *mut c_void,
        size: i64,
        device: u16,
    ) -> ();
    missing ();
    with call, thread, result, held;
    before { reported(thread, call.api(), ptr as u64, size, Device(device), None); }
}

macro_rules! failures {
    ($($(#[$doc:meta])* $name:ident($figure:ty);)*) => {$(
        hook! {
            $(#[$doc])*
            PyTorch Optional
            fn $name(size: i64, allocated: $figure, reserved: $figure, device: u16) -> ();
            missing ();
            with call, thread, result, held;
            before {
                if let Some(device) = Device(device).cuda() {
                    let reserved = reserved as u64;
                    let failed = Failed {
                        api: call.api(),
                        level: Level::TENSOR,
                        device,
                        bytes: size.unsigned_abs(),
                        framework: Some((allocated as u64, reserved)),
                        caller: 0,
                    };
                    record::out_of_memory(thread, failed, reserved);
                }
            }
        }
    )*};
}

failures! {
    /// PyTorch 2.0 to 2.15.
    _ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE(u64);
    /// PyTorch 1.13.
    _ZN3c1027reportOutOfMemoryToProfilerElllNS_6DeviceE(i64);
}

/// Whether this process's PyTorch tells of allocations that failed.
pub(crate) fn tells_of_failures() -> bool {
    let (new, old) = (
        &_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE::HOOK,
        &_ZN3c1027reportOutOfMemoryToProfilerElllNS_6DeviceE::HOOK,
    );
    new.real() != 0 || old.real() != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_cuda_devices_count() {
        assert_eq!(Device(0x0001).cuda(), Some(DeviceOrdinal(0)));
        assert_eq!(Device(0x0301).cuda(), Some(DeviceOrdinal(3)));
        assert_eq!(Device(0xff00).cuda(), None); // cpu
        assert_eq!(Device(0xff01).cuda(), None); // cuda, no index
    }

    #[test]
    fn disagreement_is_flagged() {
        assert_eq!(agreement(5, Some(5)), EventFlags::NONE);
        assert_eq!(agreement(5, Some(6)), EventFlags::MISMATCH);
        assert_eq!(agreement(5, None), EventFlags::NONE);
    }
}

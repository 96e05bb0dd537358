//! PyTorch's reports of its caching allocator: every tensor's block, in every form of the reporting function (1.8
//! to 2.15). They are called under the allocator's lock of the device, with or without the GIL.

#![allow(clippy::unused_unit)] // the macro requires a return type

use core::ffi::c_void;

use gpumem_capture::{ApiId, DeviceOrdinal, EventFlags, Level};

use crate::failed::Failed;
use crate::record;
use crate::tensors::report::{self, Report};

/// `c10::Device` as an argument: the type in the low byte, the index in the next.
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

/// Defines a hook of a form of the report, which has figures of the given type or none: no recorder code follows
/// PyTorch's own function.
macro_rules! report {
    ($(#[$doc:meta])* $name:ident($($allocated:ident, $reserved:ident: $figure:ty)?)) => {
        entry! {
            PyTorch Optional $name

            pub(super) unsafe extern "C-unwind" fn body(
                ptr: *mut c_void,
                size: i64,
                $($allocated: $figure, $reserved: $figure,)?
                device: u16,
            ) {
                let (from, rax) = crate::caller::noted_with_rax();
                let address = HOOK.real();
                if address == 0 {
                    return;
                }
                let id = HOOK.id();
                crate::call_counts::count(id);
                HOOK.note_use(from.pc as usize);
                if let Some(device) = Device(device).cuda() {
                    #[allow(unused_mut, unused_assignments)]
                    let mut figures = None;
                    $(figures = Some(($allocated as u64, $reserved as u64));)?
                    report::reported(&Report {
                        api: ApiId(id),
                        from,
                        rax,
                        ptr: ptr as u64,
                        size,
                        device,
                        figures,
                    });
                }
                type Real = unsafe extern "C-unwind" fn(*mut c_void, i64, $($figure, $figure,)? u16);
                // SAFETY: the address is that of the function of this name, whose type this is.
                let real = unsafe { core::mem::transmute::<usize, Real>(address) };
                // SAFETY: the caller's own arguments.
                unsafe { real(ptr, size, $($allocated, $reserved,)? device) }
            }
        }

        $(#[$doc])*
        ///
        /// # Safety
        /// The requirements of the real function: the arguments go to it unchanged.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        #[allow(non_snake_case)]
        pub unsafe extern "C-unwind" fn $name(
            ptr: *mut c_void,
            size: i64,
            $($allocated: $figure, $reserved: $figure,)?
            device: u16,
        ) {
            crate::caller::note_with_rax_and_go_on!($name::body)
        }
    };
}

report! {
    /// PyTorch 2.0 to 2.15.
    _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(allocated, reserved: u64)
}

report! {
    /// PyTorch 1.10 to 1.13.
    _ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE(allocated, reserved: i64)
}

report! {
    /// PyTorch 1.8 and 1.9: `ptr` is the allocator's block, not the data, without figures.
    _ZN3c1027reportMemoryUsageToProfilerEPvlNS_6DeviceE()
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
                        of: EventFlags::NONE,
                        is_told: false,
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
}

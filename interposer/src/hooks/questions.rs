//! Queries of a card's memory. They record nothing. If GPUMEM_LIMIT makes the card look smaller, the program
//! gets the answers of such a card.

use core::ffi::c_void;

use gpumem_cuda_abi::{CuDevice, CuResult, NvmlReturn};

use crate::limit::reported::{self, Figures};

macro_rules! question {
    (
        $(#[$doc:meta])*
        $home:ident fn $name:ident($($arg:ident: $type:ty),*) -> $ret:ty;
        missing $missing:expr;
        with $real:ident, $result:ident;
        after $after:block
    ) => {
        entry! {
            $home Optional $name

            pub(super) type Real = unsafe extern "C-unwind" fn($($type),*) -> $ret;
        }

        $(#[$doc])*
        ///
        /// # Safety
        /// The requirements of the real function: the arguments go to it unchanged.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case)]
        pub unsafe extern "C-unwind" fn $name($($arg: $type),*) -> $ret {
            let address = $name::HOOK.real();
            if address == 0 {
                return $missing;
            }
            // SAFETY: the address is that of the function of this name, whose type this is.
            let $real = unsafe { core::mem::transmute::<usize, $name::Real>(address) };
            // SAFETY: the caller's own arguments.
            let $result = unsafe { $real($($arg),*) };
            if crate::limit::any() {
                $after
            }
            $result
        }
    };
}

/// Writes to an out parameter that a function has just written to, or that is null.
///
/// # Safety
/// `place` is null or valid for writing.
unsafe fn put<T>(place: *mut T, value: T) {
    if !place.is_null() {
        // SAFETY: checked for null; the caller promises the rest.
        unsafe { place.write(value) };
    }
}

question! {
    /// Free and total memory of the current context's device.
    Driver fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    with real, result;
    after {
        if result.is_success() {
            let seen = reported::current(|| {
                let (mut free, mut total) = (0usize, 0usize);
                // SAFETY: both point to live locals.
                let again = unsafe { real(&raw mut free, &raw mut total) };
                again.is_success().then_some((free as u64, total as u64))
            });
            if let Some(seen) = seen {
                // SAFETY: the call succeeded with these arguments.
                unsafe { put(free, seen.0 as usize); put(total, seen.1 as usize) };
            }
        }
    }
}

question! {
    /// The same in 32 bits, of CUDA 2.
    Driver fn cuMemGetInfo(free: *mut u32, total: *mut u32) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    with real, result;
    after {
        if result.is_success() {
            let seen = reported::current(crate::driver::memory_info);
            if let Some(seen) = seen {
                let [seen_free, seen_total] =
                    [seen.0, seen.1].map(|bytes| u32::try_from(bytes).unwrap_or(u32::MAX));
                // SAFETY: the call succeeded with these arguments.
                unsafe { put(free, seen_free); put(total, seen_total) };
            }
        }
    }
}

question! {
    /// Total memory of a device.
    Driver fn cuDeviceTotalMem_v2(bytes: *mut usize, device: CuDevice) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    with real, result;
    after {
        if result.is_success() {
            // SAFETY: the call succeeded, so the driver has just written there.
            let total = unsafe { *bytes } as u64;
            if let Some(seen) = reported::total(device, total) {
                // SAFETY: as above.
                unsafe { bytes.write(seen as usize) };
            }
        }
    }
}

question! {
    /// The same in 32 bits, of CUDA 2.
    Driver fn cuDeviceTotalMem(bytes: *mut u32, device: CuDevice) -> CuResult;
    missing CuResult::NOT_INITIALIZED;
    with real, result;
    after {
        let total = crate::driver::total_bytes(device);
        if let (true, Some(total)) = (result.is_success(), total)
            && let Some(seen) = reported::total(device, total)
        {
            // SAFETY: the call succeeded, so the driver has just written there.
            unsafe { bytes.write(u32::try_from(seen).unwrap_or(u32::MAX)) };
        }
    }
}

/// `nvmlMemory_t`: `used` includes the driver's reserved memory.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct NvmlMemory {
    total: u64,
    free: u64,
    used: u64,
}

/// `nvmlMemory_v2_t`: the driver's reserved memory is a separate field.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct NvmlMemoryV2 {
    version: u32,
    total: u64,
    reserved: u64,
    free: u64,
    used: u64,
}

question! {
    /// Total and used memory of a card, from NVML.
    Nvml fn nvmlDeviceGetMemoryInfo(device: *mut c_void, memory: *mut NvmlMemory) -> NvmlReturn;
    missing NvmlReturn::UNINITIALIZED;
    with real, result;
    after {
        if result.is_success() {
            let seen = reported::by_nvml(device, || {
                let mut memory = NvmlMemory { total: 0, free: 0, used: 0 };
                // SAFETY: the caller's own handle, and a live local.
                let again = unsafe { real(device, &raw mut memory) };
                let NvmlMemory { total, free, used } = memory;
                let figures = Figures { total, free, used };
                again.is_success().then(|| (figures, reserved(device)))
            });
            if let Some(Figures { total, free, used }) = seen {
                // SAFETY: the call succeeded, so NVML has just written there.
                unsafe { memory.write(NvmlMemory { total, free, used }) };
            }
        }
    }
}

/// The driver's reserved memory of a card; 0 if NVML does not report it.
fn reserved(device: *mut c_void) -> u64 {
    const VERSION_2: u32 = size_of::<NvmlMemoryV2>() as u32 | 2 << 24;
    let address = nvmlDeviceGetMemoryInfo_v2::HOOK.real();
    if address == 0 {
        return 0;
    }
    // SAFETY: the address is that of the function of this name, whose type this is.
    let real = unsafe { core::mem::transmute::<usize, nvmlDeviceGetMemoryInfo_v2::Real>(address) };
    let mut memory = NvmlMemoryV2 {
        version: VERSION_2,
        total: 0,
        reserved: 0,
        free: 0,
        used: 0,
    };
    // SAFETY: the caller's own handle, and a live local.
    let result = unsafe { real(device, &raw mut memory) };
    if result.is_success() {
        memory.reserved
    } else {
        0
    }
}

question! {
    /// Total, used and reserved memory of a card, from NVML.
    Nvml fn nvmlDeviceGetMemoryInfo_v2(device: *mut c_void, memory: *mut NvmlMemoryV2) -> NvmlReturn;
    missing NvmlReturn::UNINITIALIZED;
    with real, result;
    after {
        if result.is_success() {
            // SAFETY: the call succeeded, so NVML has just written there.
            let asked = unsafe { *memory };
            let seen = reported::by_nvml(device, || {
                let mut memory = asked;
                // SAFETY: the caller's own handle, and a live local of the requested version.
                let again = unsafe { real(device, &raw mut memory) };
                let NvmlMemoryV2 { total, free, used, reserved, .. } = memory;
                let figures = Figures { total, free, used };
                again.is_success().then_some((figures, reserved))
            });
            if let Some(Figures { total, free, used }) = seen {
                // SAFETY: as above.
                unsafe { memory.write(NvmlMemoryV2 { total, free, used, ..asked }) };
            }
        }
    }
}

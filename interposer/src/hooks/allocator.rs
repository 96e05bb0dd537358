//! PyTorch's caching allocator: its set-up, and its settings. Its other calls are hooked in its vtable
//! ([`crate::allocator`]).

#![allow(clippy::unused_unit)] // the macro requires a return type

use gpumem_torch_abi::Stream;

use crate::{allocator, thread};

around! {
    /// `c10::cuda::device_count_ensure_non_zero()`: called just before the allocator is set up.
    C10Cuda
    fn _ZN3c104cuda28device_count_ensure_non_zeroEv() -> u64;
    missing 0;
    with api, real;
    {
        let _ = thread::in_hook(|_| allocator::slots::take());
        real()
    }
}

around! {
    /// `c10::CachingAllocator::AcceleratorAllocatorConfig::parseArgs(const std::string&)`, of 2.10 and later.
    PyTorch
    fn _ZN3c1016CachingAllocator26AcceleratorAllocatorConfig9parseArgsERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE(this, text) -> u64;
    missing 0;
    with api, real;
    {
        // SAFETY: a string of libstdc++ begins with the address and the length of its text.
        let text = unsafe {
            let (start, length) = (*(text as *const *const u8), *(text as *const usize).add(1));
            core::slice::from_raw_parts(start, length)
        };
        allocator::calls::settings(text);
        real()
    }
}

around! {
    /// `c10::cuda::CUDACachingAllocator::setAllocatorSettings(const std::string&)`, up to 2.9, and since 2.7 with this
    /// string.
    C10Cuda
    fn _ZN3c104cuda20CUDACachingAllocator20setAllocatorSettingsERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE(text) -> u64;
    missing 0;
    with api, real;
    {
        // SAFETY: as above.
        let text = unsafe {
            let (start, length) = (*(text as *const *const u8), *(text as *const usize).add(1));
            core::slice::from_raw_parts(start, length)
        };
        allocator::calls::settings_at_run_time(text);
        real()
    }
}

around! {
    /// `c10::cuda::CUDACachingAllocator::setAllocatorSettings(const std::string&)`, up to 2.6, whose string is that of
    /// libstdc++'s older ABI.
    C10Cuda
    fn _ZN3c104cuda20CUDACachingAllocator20setAllocatorSettingsERKSs(text) -> u64;
    missing 0;
    with api, real;
    {
        // SAFETY: such a string is the address of its text. Its length is in the word before two others in front of the
        // text.
        let text = unsafe {
            let start = *(text as *const *const u8);
            core::slice::from_raw_parts(start, *start.cast::<usize>().sub(3))
        };
        allocator::calls::settings_at_run_time(text);
        real()
    }
}

/// Whether the allocator's functions are called by name: if its vtable was found, our functions are in its slots.
fn is_by_name() -> bool {
    allocator::found::backend().is_none()
}

around! {
    /// `recordStream(const DataPtr&, CUDAStream)`, a separate function before PyTorch 2.0.
    C10Cuda
    fn _ZN3c104cuda20CUDACachingAllocator12recordStreamERKNS_7DataPtrENS0_10CUDAStreamE(data, device, id) -> u64;
    missing 0;
    with api, real;
    {
        if is_by_name() {
            allocator::calls::stream_recorded(data, Stream { device, id });
        }
        real()
    }
}

around! {
    /// `emptyCache()`, a separate function before PyTorch 2.0.
    C10Cuda
    fn _ZN3c104cuda20CUDACachingAllocator10emptyCacheEv() -> u64;
    missing 0;
    with api, real;
    {
        if is_by_name() {
            allocator::calls::cache_emptied((0, 0));
        }
        real()
    }
}

around! {
    /// `setMemoryFraction(double, int)`, a separate function before PyTorch 2.0.
    C10Cuda
    fn _ZN3c104cuda20CUDACachingAllocator17setMemoryFractionEdi(fraction: f64, device) -> u64;
    missing 0;
    with api, real;
    {
        if is_by_name() {
            allocator::calls::fraction_set(fraction, device);
        }
        real()
    }
}

//! PyTorch's caching allocator: where it is set up, and where it is given settings. Its other calls come by its table of
//! virtual functions ([`crate::allocator`]).

#![allow(clippy::unused_unit)] // the macro asks for every return type

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

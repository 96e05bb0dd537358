//! One safe wrapper for each driver function that these libraries use.
//!
//! The wrappers keep CUDA's names. They are safe to call because every pointer among their
//! parameters is a type of [`crate::ffi`], whose constructors guarantee that they are valid, and
//! because handles and device addresses are numbers that the driver checks.
#![allow(non_snake_case)]

use gpumem_cuda_abi::{
    CuArray3dDescriptor, CuArrayDescriptor, CuIpcMemHandle, CuKernelNodeParams, CuMemAccessDesc,
    CuMemAllocationProp, CuMemLocation, CuMemPoolProps, CuUuid,
};

use crate::driver::Driver;
use crate::ffi::{Address, Handle, In, Out, Text};
use crate::rows::rows;
use crate::structures::{ExternalArray, LaunchConfig, Memcpy2d, Memcpy3d};
use crate::wanted::Function;

macro_rules! wrappers {
    ($($name:ident $(per_thread $base:ident)? $version:literal ($($argument:ident: $kind:ty),* $(,)?);)*) => {$(
        #[doc = concat!("`", stringify!($name), "`.")]
        #[doc = ""]
        #[doc = "# Errors"]
        #[doc = "The driver's own, or that there is no driver, or none new enough."]
        #[allow(clippy::too_many_arguments)]
        pub fn $name($($argument: $kind),*) -> crate::ffi::Answer {
            let address = Driver::get()?.address(Function::$name)?;
            // SAFETY: the driver gave this address for this name and version, whose signature
            // in cuda.h is the row's.
            let function = unsafe {
                std::mem::transmute::<
                    usize,
                    extern "C" fn($($kind),*) -> gpumem_cuda_abi::CuResult,
                >(address)
            };
            crate::ffi::check(function($($argument),*))
        }
    )*};
}
rows!(wrappers);

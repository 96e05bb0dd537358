//! Exports that do not return an error code, or that return the last one.

use crate::array::Channels;
use crate::{error, launch};
use gpumem_cuda_abi::{CudaError, Dim3};
use gpumem_sim_client::ffi::{Address, Handle, Text};
use std::ffi::c_char;

/// Makes an export of each row without requirements.
macro_rules! plain {
    ($($name:ident ($($argument:ident: $kind:ty),*) -> $answer:ty = $inside:path;)*) => {
        /// The names of this family.
        pub const NAMES: &[&str] = &[$(stringify!($name)),*];

        $(
            #[doc = concat!("`", stringify!($name), "`.")]
            #[unsafe(no_mangle)]
            #[allow(non_snake_case, clippy::too_many_arguments)]
            pub extern "C" fn $name($($argument: $kind),*) -> $answer {
                $inside($($argument),*)
            }
        )*
    };
}

plain! {
    cudaGetLastError () -> CudaError = error::take;
    cudaPeekAtLastError () -> CudaError = error::peek;
    cudaGetErrorName (error: CudaError) -> *const c_char = error::name;
    cudaGetErrorString (error: CudaError) -> *const c_char = error::text;
    cudaCreateChannelDesc (x: i32, y: i32, z: i32, w: i32, kind: u32) -> Channels = Channels::new;
    __cudaPushCallConfiguration (grid: Dim3, block: Dim3, shared_bytes: usize, stream: Handle) -> u32 = launch::push_configuration;
    __cudaRegisterFatBinary (wrapper: Address) -> Address = launch::register_image;
    __cudaRegisterFatBinaryEnd () -> () = launch::nothing;
    __cudaRegisterFunction (image: Address, host: Address, device: Address, name: Text, thread_limit: i32, thread: Address, block: Address, block_extent: Address, grid_extent: Address, warp_size: Address) -> () = launch::register_kernel;
    __cudaRegisterHostVar () -> () = launch::nothing;
    __cudaRegisterManagedVar (image: Address, host: Address, device: Address, name: Text, external: i32, bytes: usize, constant: i32, global: i32) -> () = launch::register_managed;
    __cudaRegisterUnifiedTable () -> () = launch::nothing;
    __cudaRegisterVar (image: Address, host: Address, device: Address, name: Text, external: i32, bytes: usize, constant: i32, global: i32) -> () = launch::register_variable;
    __cudaUnregisterFatBinary (image: Address) -> () = launch::unregister_image;
    __cudaInitModule (image: Address) -> u8 = launch::initialise_image;
}

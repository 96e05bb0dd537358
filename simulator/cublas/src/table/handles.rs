//! Handles, their settings, versions, copies, logging.

use crate::copy;
use crate::handle::{self, Setting};
use gpumem_sim_client::blas::{self, Status};
use gpumem_sim_client::exports;
use gpumem_sim_client::ffi::{Address, Handle, Out};
use std::ffi::c_char;

/// Logging settings are accepted and have no effect.
fn accepted() -> Status {
    Status::SUCCESS
}

exports! {
    cublasCreate_v2 (handle: Out<Handle>) -> Status = handle::create;
    cublasDestroy_v2 (handle: Handle) -> Status = handle::destroy;
    cublasGetVersion_v2 (handle: Handle, version: Out<i32>) -> Status = handle::version;
    cublasGetProperty (which: u32, value: Out<i32>) -> Status = blas::property;
    cublasGetCudartVersion () -> usize = blas::runtime_version;
    cublasGetStatusName (status: Status) -> *const c_char = blas::status_name;
    cublasGetStatusString (status: Status) -> *const c_char = blas::status_name;
    cublasSetStream_v2 (handle: Handle, stream: Handle) -> Status = handle::set_stream;
    cublasGetStream_v2 (handle: Handle, stream: Out<Handle>) -> Status = handle::get_stream;
    cublasSetWorkspace_v2 (handle: Handle, workspace: Address, bytes: usize) -> Status = handle::set_workspace;
    cublasLoggerConfigure () -> Status = accepted;
    cublasSetLoggerCallback () -> Status = accepted;
    cublasSetVector (n: i32, element: i32, from: Address, from_step: i32, to: Address, to_step: i32) -> Status = copy::set_vector;
    cublasSetVector_64 (n: i64, element: i64, from: Address, from_step: i64, to: Address, to_step: i64) -> Status = copy::set_vector;
    cublasGetVector (n: i32, element: i32, from: Address, from_step: i32, to: Address, to_step: i32) -> Status = copy::get_vector;
    cublasGetVector_64 (n: i64, element: i64, from: Address, from_step: i64, to: Address, to_step: i64) -> Status = copy::get_vector;
    cublasSetVectorAsync (n: i32, element: i32, from: Address, from_step: i32, to: Address, to_step: i32, stream: Handle) -> Status = copy::set_vector_async;
    cublasSetVectorAsync_64 (n: i64, element: i64, from: Address, from_step: i64, to: Address, to_step: i64, stream: Handle) -> Status = copy::set_vector_async;
    cublasGetVectorAsync (n: i32, element: i32, from: Address, from_step: i32, to: Address, to_step: i32, stream: Handle) -> Status = copy::get_vector_async;
    cublasGetVectorAsync_64 (n: i64, element: i64, from: Address, from_step: i64, to: Address, to_step: i64, stream: Handle) -> Status = copy::get_vector_async;
    cublasSetMatrix (rows: i32, columns: i32, element: i32, from: Address, from_step: i32, to: Address, to_step: i32) -> Status = copy::set_matrix;
    cublasSetMatrix_64 (rows: i64, columns: i64, element: i64, from: Address, from_step: i64, to: Address, to_step: i64) -> Status = copy::set_matrix;
    cublasGetMatrix (rows: i32, columns: i32, element: i32, from: Address, from_step: i32, to: Address, to_step: i32) -> Status = copy::get_matrix;
    cublasGetMatrix_64 (rows: i64, columns: i64, element: i64, from: Address, from_step: i64, to: Address, to_step: i64) -> Status = copy::get_matrix;
    cublasSetMatrixAsync (rows: i32, columns: i32, element: i32, from: Address, from_step: i32, to: Address, to_step: i32, stream: Handle) -> Status = copy::set_matrix_async;
    cublasSetMatrixAsync_64 (rows: i64, columns: i64, element: i64, from: Address, from_step: i64, to: Address, to_step: i64, stream: Handle) -> Status = copy::set_matrix_async;
    cublasGetMatrixAsync (rows: i32, columns: i32, element: i32, from: Address, from_step: i32, to: Address, to_step: i32, stream: Handle) -> Status = copy::get_matrix_async;
    cublasGetMatrixAsync_64 (rows: i64, columns: i64, element: i64, from: Address, from_step: i64, to: Address, to_step: i64, stream: Handle) -> Status = copy::get_matrix_async;
}

/// Makes a pair of functions for each setting.
macro_rules! settings {
    ($($set:ident $get:ident $setting:ident;)*) => {
        /// The names of the settings' functions.
        pub const SETTINGS: &[&str] = &[$(stringify!($set), stringify!($get)),*];

        $(
            #[doc = concat!("`", stringify!($set), "`.")]
            #[unsafe(no_mangle)]
            #[allow(non_snake_case)]
            pub extern "C" fn $set(handle: Handle, value: u32) -> Status {
                handle::set(handle, Setting::$setting, value)
            }

            #[doc = concat!("`", stringify!($get), "`.")]
            #[unsafe(no_mangle)]
            #[allow(non_snake_case)]
            pub extern "C" fn $get(handle: Handle, value: Out<u32>) -> Status {
                handle::get(handle, Setting::$setting, value)
            }
        )*
    };
}

settings! {
    cublasSetPointerMode_v2 cublasGetPointerMode_v2 PointerMode;
    cublasSetAtomicsMode cublasGetAtomicsMode AtomicsMode;
    cublasSetMathMode cublasGetMathMode MathMode;
    cublasSetSmCountTarget cublasGetSmCountTarget SmCountTarget;
    cublasSetEmulationStrategy cublasGetEmulationStrategy EmulationStrategy;
    cublasSetEmulationSpecialValuesSupport cublasGetEmulationSpecialValuesSupport EmulationSpecialValues;
    cublasSetFixedPointEmulationMantissaControl cublasGetFixedPointEmulationMantissaControl MantissaControl;
    cublasSetFixedPointEmulationMaxMantissaBitCount cublasGetFixedPointEmulationMaxMantissaBitCount MaxMantissaBits;
    cublasSetFixedPointEmulationMantissaBitOffset cublasGetFixedPointEmulationMantissaBitOffset MantissaBitOffset;
    cublasSetEnvironmentMode cublasGetEnvironmentMode EnvironmentMode;
}

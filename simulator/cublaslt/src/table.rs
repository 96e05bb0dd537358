//! Every export of the library.

use crate::algorithm::{Algorithm, Found};
use crate::{algorithm, descriptor};
use gpumem_sim_client::blas::{self, Status};
use gpumem_sim_client::exports;
use gpumem_sim_client::ffi::{Address, Handle, Out};
use std::ffi::c_char;

fn version() -> usize {
    blas::version() as usize
}

/// Settings without effect here: logging, caches.
fn accepted() -> Status {
    Status::SUCCESS
}

fn capacity(capacity: Out<usize>) -> Status {
    blas::status(blas::pointer(capacity.put(0)))
}

fn instructions(_mask: u32) -> u32 {
    0
}

/// The capabilities of an algorithm are not simulated.
fn capability() -> Status {
    Status::NOT_SUPPORTED
}

exports! {
    cublasLtCreate (handle: Out<Handle>) -> Status = algorithm::create;
    cublasLtDestroy (handle: Handle) -> Status = algorithm::destroy;
    cublasLtGetVersion () -> usize = version;
    cublasLtGetCudartVersion () -> usize = blas::runtime_version;
    cublasLtGetProperty (which: u32, value: Out<i32>) -> Status = blas::property;
    cublasLtGetStatusName (status: Status) -> *const c_char = blas::status_name;
    cublasLtGetStatusString (status: Status) -> *const c_char = blas::status_name;
    cublasLtMatmul (handle: Handle) -> Status = algorithm::compute;
    cublasLtMatrixTransform (handle: Handle) -> Status = algorithm::compute;
    cublasLtMatmulAlgoGetHeuristic (handle: Handle, product: Handle, a: Handle, b: Handle, c: Handle, d: Handle, preference: Handle, wanted: i32, results: Out<Found>, count: Out<i32>) -> Status = algorithm::get_heuristic;
    cublasLtMatmulAlgoGetIds (handle: Handle, compute: u32, scale: u32, a: u32, b: u32, c: u32, d: u32, wanted: i32, ids: Out<u32>, count: Out<i32>) -> Status = algorithm::get_ids;
    cublasLtMatmulAlgoInit (handle: Handle, compute: u32, scale: u32, a: u32, b: u32, c: u32, d: u32, id: u32, algorithm: Out<Algorithm>) -> Status = algorithm::init;
    cublasLtMatmulAlgoCheck (handle: Handle, product: Handle, a: Handle, b: Handle, c: Handle, d: Handle, algorithm: Out<Algorithm>, result: Out<Found>) -> Status = algorithm::check;
    cublasLtMatmulAlgoCapGetAttribute () -> Status = capability;
    cublasLtMatmulAlgoConfigSetAttribute (algorithm: Out<Algorithm>, attribute: u32, value: Address, size: usize) -> Status = algorithm::set_config;
    cublasLtMatmulAlgoConfigGetAttribute (algorithm: Out<Algorithm>, attribute: u32, value: Address, size: usize, written: Out<usize>) -> Status = algorithm::get_config;
    cublasLtMatmulDescCreate (place: Out<Handle>, compute: u32, scale: u32) -> Status = descriptor::create_product;
    cublasLtMatmulDescInit_internal (handle: Handle, size: usize, compute: u32, scale: u32) -> Status = descriptor::init_product;
    cublasLtMatmulDescDestroy (handle: Handle) -> Status = descriptor::destroy;
    cublasLtMatmulDescSetAttribute (handle: Handle, attribute: u32, value: Address, size: usize) -> Status = descriptor::set_attribute;
    cublasLtMatmulDescGetAttribute (handle: Handle, attribute: u32, value: Address, size: usize, written: Out<usize>) -> Status = descriptor::get_attribute;
    cublasLtMatmulPreferenceCreate (place: Out<Handle>) -> Status = descriptor::create_empty;
    cublasLtMatmulPreferenceInit_internal (handle: Handle, size: usize) -> Status = descriptor::init_empty;
    cublasLtMatmulPreferenceDestroy (handle: Handle) -> Status = descriptor::destroy;
    cublasLtMatmulPreferenceSetAttribute (handle: Handle, attribute: u32, value: Address, size: usize) -> Status = descriptor::set_attribute;
    cublasLtMatmulPreferenceGetAttribute (handle: Handle, attribute: u32, value: Address, size: usize, written: Out<usize>) -> Status = descriptor::get_attribute;
    cublasLtMatrixLayoutCreate (place: Out<Handle>, kind: u32, rows: u64, columns: u64, ld: u64) -> Status = descriptor::create_layout;
    cublasLtMatrixLayoutInit_internal (handle: Handle, size: usize, kind: u32, rows: u64, columns: u64, ld: u64) -> Status = descriptor::init_layout;
    cublasLtGroupedMatrixLayoutCreate (place: Out<Handle>, kind: u32) -> Status = descriptor::create_grouped;
    cublasLtGroupedMatrixLayoutInit_internal (handle: Handle, size: usize, kind: u32) -> Status = descriptor::init_grouped;
    cublasLtMatrixLayoutDestroy (handle: Handle) -> Status = descriptor::destroy;
    cublasLtMatrixLayoutSetAttribute (handle: Handle, attribute: u32, value: Address, size: usize) -> Status = descriptor::set_attribute;
    cublasLtMatrixLayoutGetAttribute (handle: Handle, attribute: u32, value: Address, size: usize, written: Out<usize>) -> Status = descriptor::get_attribute;
    cublasLtMatrixTransformDescCreate (place: Out<Handle>, scale: u32) -> Status = descriptor::create_transform;
    cublasLtMatrixTransformDescInit_internal (handle: Handle, size: usize, scale: u32) -> Status = descriptor::init_transform;
    cublasLtMatrixTransformDescDestroy (handle: Handle) -> Status = descriptor::destroy;
    cublasLtMatrixTransformDescSetAttribute (handle: Handle, attribute: u32, value: Address, size: usize) -> Status = descriptor::set_attribute;
    cublasLtMatrixTransformDescGetAttribute (handle: Handle, attribute: u32, value: Address, size: usize, written: Out<usize>) -> Status = descriptor::get_attribute;
    cublasLtEmulationDescCreate (place: Out<Handle>) -> Status = descriptor::create_empty;
    cublasLtEmulationDescInit_internal (handle: Handle, size: usize) -> Status = descriptor::init_empty;
    cublasLtEmulationDescDestroy (handle: Handle) -> Status = descriptor::destroy;
    cublasLtEmulationDescSetAttribute (handle: Handle, attribute: u32, value: Address, size: usize) -> Status = descriptor::set_attribute;
    cublasLtEmulationDescGetAttribute (handle: Handle, attribute: u32, value: Address, size: usize, written: Out<usize>) -> Status = descriptor::get_attribute;
    cublasLtHeuristicsCacheGetCapacity (place: Out<usize>) -> Status = capacity;
    cublasLtHeuristicsCacheSetCapacity () -> Status = accepted;
    cublasLtDisableCpuInstructionsSetMask (mask: u32) -> u32 = instructions;
    cublasLtLoggerSetCallback () -> Status = accepted;
    cublasLtLoggerSetFile () -> Status = accepted;
    cublasLtLoggerOpenFile () -> Status = accepted;
    cublasLtLoggerSetLevel () -> Status = accepted;
    cublasLtLoggerSetMask () -> Status = accepted;
    cublasLtLoggerForceDisable () -> Status = accepted;
}

//! Handles, other objects, versions.

use crate::handle;
use crate::status::SolverStatus;
use gpumem_sim_client::exports;
use gpumem_sim_client::ffi::{Handle, Out};

exports! {
    cusolverDnCreate (handle: Out<Handle>) -> SolverStatus = handle::create;
    cusolverDnDestroy (handle: Handle) -> SolverStatus = handle::destroy_handle;
    cusolverDnSetStream (handle: Handle, stream: Handle) -> SolverStatus = handle::set_stream;
    cusolverDnGetStream (handle: Handle, stream: Out<Handle>) -> SolverStatus = handle::get_stream;
    cusolverDnCreateParams (params: Out<Handle>) -> SolverStatus = handle::create_parameters;
    cusolverDnDestroyParams (params: Handle) -> SolverStatus = handle::destroy_object;
    cusolverDnCreateGesvdjInfo (jacobi: Out<Handle>) -> SolverStatus = handle::create_jacobi;
    cusolverDnDestroyGesvdjInfo (jacobi: Handle) -> SolverStatus = handle::destroy_object;
    cusolverDnXgesvdjSetMaxSweeps (jacobi: Handle) -> SolverStatus = handle::set_jacobi;
    cusolverDnXgesvdjSetSortEig (jacobi: Handle) -> SolverStatus = handle::set_jacobi;
    cusolverDnXgesvdjSetTolerance (jacobi: Handle) -> SolverStatus = handle::set_jacobi;
    cusolverGetVersion (version: Out<i32>) -> SolverStatus = handle::version;
    cusolverGetProperty (which: u32, value: Out<i32>) -> SolverStatus = handle::property;
}

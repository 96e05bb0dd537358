//! Handles and other objects: parameters, settings of Jacobi's method.

use crate::status::{SolverStatus, put, status};
use gpumem_sim_client::cu;
use gpumem_sim_client::ffi::{Handle, Out};
use gpumem_sim_client::release;
use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

/// The version, as three numbers: 12.2.0, which PyTorch 2.15 brings, or 11.7.3, which 2.9 brings
/// for CUDA 12.
fn numbers() -> [i32; 3] {
    release::of([11, 7, 3], [12, 2, 0])
}

/// The kind of an object; for a handle, also its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Object {
    /// `cusolverDnHandle_t`.
    Dense {
        /// `cusolverDnSetStream`.
        stream: Handle,
    },
    /// `cusolverDnParams_t`.
    Parameters,
    /// `gesvdjInfo_t`.
    Jacobi,
}

fn objects() -> MutexGuard<'static, HashMap<Handle, Object>> {
    static ALL: LazyLock<Mutex<HashMap<Handle, Object>>> = LazyLock::new(Mutex::default);
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

fn make(place: Out<Handle>, object: Object) -> SolverStatus {
    if place.is_null() {
        return SolverStatus::INVALID_VALUE;
    }
    // Each handle points to its own byte, so that live objects are unique.
    let handle = Box::into_raw(Box::new(0_u8)) as Handle;
    objects().insert(handle, object);
    status(put(place, handle))
}

fn destroy(handle: Handle, unknown: SolverStatus) -> SolverStatus {
    if objects().remove(&handle).is_none() {
        return unknown;
    }
    // SAFETY: the handle was in the table, so it came from `make`; it is removed first, so this
    // happens once.
    drop(unsafe { Box::from_raw(handle as *mut u8) });
    SolverStatus::SUCCESS
}

/// Ensures that there is a context: the current one, else the primary one of the first device, as
/// the runtime inside the real library does.
fn context() -> Result<(), SolverStatus> {
    let failed = |_| SolverStatus::NOT_INITIALIZED;
    cu::cuInit(0).map_err(failed)?;
    let mut current = 0;
    cu::cuCtxGetCurrent(Out::to(&mut current)).map_err(failed)?;
    if current == 0 {
        cu::cuDevicePrimaryCtxRetain(Out::to(&mut current), 0).map_err(failed)?;
        cu::cuCtxSetCurrent(current).map_err(failed)?;
    }
    Ok(())
}

/// `cusolverDnCreate`.
pub fn create(place: Out<Handle>) -> SolverStatus {
    match context() {
        Ok(()) => make(place, Object::Dense { stream: 0 }),
        Err(status) => status,
    }
}

/// `cusolverDnDestroy`.
pub fn destroy_handle(handle: Handle) -> SolverStatus {
    destroy(handle, SolverStatus::NOT_INITIALIZED)
}

/// `cusolverDnCreateParams`.
pub fn create_parameters(place: Out<Handle>) -> SolverStatus {
    make(place, Object::Parameters)
}

/// `cusolverDnCreateGesvdjInfo`.
pub fn create_jacobi(place: Out<Handle>) -> SolverStatus {
    make(place, Object::Jacobi)
}

/// `cusolverDnDestroyParams`, `cusolverDnDestroyGesvdjInfo`.
pub fn destroy_object(handle: Handle) -> SolverStatus {
    destroy(handle, SolverStatus::INVALID_VALUE)
}

/// The stream of a live handle.
pub fn stream(handle: Handle) -> Result<Handle, SolverStatus> {
    match objects().get(&handle) {
        Some(Object::Dense { stream }) => Ok(*stream),
        _ => Err(SolverStatus::NOT_INITIALIZED),
    }
}

/// `cusolverDnSetStream`.
pub fn set_stream(handle: Handle, stream: Handle) -> SolverStatus {
    match objects().get_mut(&handle) {
        Some(Object::Dense { stream: kept }) => {
            *kept = stream;
            SolverStatus::SUCCESS
        }
        _ => SolverStatus::NOT_INITIALIZED,
    }
}

/// `cusolverDnGetStream`.
pub fn get_stream(handle: Handle, place: Out<Handle>) -> SolverStatus {
    status(stream(handle).and_then(|stream| put(place, stream)))
}

/// `cusolverDnXgesvdjSet…`: accepted without effect.
pub fn set_jacobi(object: Handle) -> SolverStatus {
    match objects().get(&object) {
        Some(Object::Jacobi) => SolverStatus::SUCCESS,
        _ => SolverStatus::INVALID_VALUE,
    }
}

/// `cusolverGetVersion`.
pub fn version(place: Out<i32>) -> SolverStatus {
    let [major, minor, patch] = numbers();
    status(put(place, major * 1000 + minor * 100 + patch))
}

/// `cusolverGetProperty`: major, minor, patch.
pub fn property(which: u32, place: Out<i32>) -> SolverStatus {
    status(match numbers().get(which as usize) {
        Some(number) => put(place, *number),
        None => Err(SolverStatus::INVALID_VALUE),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_lives_until_it_is_destroyed() {
        let mut object = 0;
        assert_eq!(create_jacobi(Out::to(&mut object)), SolverStatus::SUCCESS);
        assert_eq!(set_jacobi(object), SolverStatus::SUCCESS);
        assert_eq!(stream(object), Err(SolverStatus::NOT_INITIALIZED));
        assert_eq!(destroy_object(object), SolverStatus::SUCCESS);
        assert_eq!(set_jacobi(object), SolverStatus::INVALID_VALUE);
        assert_eq!(destroy_object(object), SolverStatus::INVALID_VALUE);
    }
}

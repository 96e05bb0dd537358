//! Functions whose results a program reads on the host. They write zeros.

use crate::handle::{compute, results};
use gpumem_sim_client::blas::{Status, status};
use gpumem_sim_client::cu;
use gpumem_sim_client::ffi::{Address, Handle, Out};

/// Writes `N` zero bytes at `place`: on the host or the device, by the handle's pointer mode.
fn zero<const N: usize>(handle: Handle, place: Address) -> Status {
    let put = || -> Result<(), Status> {
        let (stream, on_device) = results(handle)?;
        if place == 0 {
            return Err(Status::INVALID_VALUE);
        }
        let done = if on_device {
            cu::cuMemsetD8Async(place, 0, N, stream)
        } else {
            Out::at(place).put([0_u8; N])
        };
        done.map_err(|_| Status::EXECUTION_FAILED)
    };
    status(put())
}

/// `cublasSdot` and similar functions: `(handle, n, x, incx, y, incy, result)`.
pub fn dot<const N: usize>(
    handle: Handle,
    _n: i64,
    _x: Address,
    _x_step: i64,
    _y: Address,
    _y_step: i64,
    result: Address,
) -> Status {
    zero::<N>(handle, result)
}

/// `cublasSnrm2`, `cublasSasum`, `cublasIsamax` and similar functions: `(handle, n, x, incx,
/// result)`.
pub fn reduce<const N: usize>(
    handle: Handle,
    _n: i64,
    _x: Address,
    _x_step: i64,
    result: Address,
) -> Status {
    zero::<N>(handle, result)
}

/// Writes a zero of a `cudaDataType`; nothing for an unknown type.
fn zero_of_type(handle: Handle, place: Address, kind: u32) -> Status {
    match kind {
        0 | 10 | 12 => zero::<4>(handle, place),
        1 | 4 => zero::<8>(handle, place),
        2 | 14 => zero::<2>(handle, place),
        3 | 8 | 5 => zero::<16>(handle, place),
        _ => compute(handle),
    }
}

/// `cublasDotEx`, `cublasDotcEx`.
#[allow(clippy::too_many_arguments)]
pub fn dot_ex(
    handle: Handle,
    _n: i64,
    _x: Address,
    _x_kind: u32,
    _x_step: i64,
    _y: Address,
    _y_kind: u32,
    _y_step: i64,
    result: Address,
    kind: u32,
) -> Status {
    zero_of_type(handle, result, kind)
}

/// `cublasNrm2Ex`, `cublasAsumEx`.
pub fn reduce_ex(
    handle: Handle,
    _n: i64,
    _x: Address,
    _x_kind: u32,
    _x_step: i64,
    result: Address,
    kind: u32,
) -> Status {
    zero_of_type(handle, result, kind)
}

/// Writes zeros for `count` statuses in device memory: every factorisation succeeded.
fn all_well(handle: Handle, statuses: Address, count: i32) -> Status {
    let put = || -> Result<(), Status> {
        let (stream, _) = results(handle)?;
        let bytes = usize::try_from(count).map_err(|_| Status::INVALID_VALUE)? * 4;
        if statuses == 0 || bytes == 0 {
            return Ok(());
        }
        let done = cu::cuMemsetD8Async(statuses, 0, bytes, stream);
        done.map_err(|_| Status::EXECUTION_FAILED)
    };
    status(put())
}

/// Writes zero for the status on the host: the parameters are valid.
fn well(handle: Handle, info: Out<i32>) -> Status {
    info.put_if_asked(0);
    compute(handle)
}

/// `cublasSgetrfBatched` and similar functions.
pub fn getrf(
    handle: Handle,
    _n: i32,
    _a: Address,
    _lda: i32,
    _pivots: Address,
    statuses: Address,
    count: i32,
) -> Status {
    all_well(handle, statuses, count)
}

/// `cublasSgetriBatched` and similar functions.
#[allow(clippy::too_many_arguments)]
pub fn getri(
    handle: Handle,
    _n: i32,
    _a: Address,
    _lda: i32,
    _pivots: Address,
    _c: Address,
    _ldc: i32,
    statuses: Address,
    count: i32,
) -> Status {
    all_well(handle, statuses, count)
}

/// `cublasSmatinvBatched` and similar functions.
#[allow(clippy::too_many_arguments)]
pub fn matinv(
    handle: Handle,
    _n: i32,
    _a: Address,
    _lda: i32,
    _inverse: Address,
    _lda_inverse: i32,
    statuses: Address,
    count: i32,
) -> Status {
    all_well(handle, statuses, count)
}

/// `cublasSgetrsBatched` and similar functions.
#[allow(clippy::too_many_arguments)]
pub fn getrs(
    handle: Handle,
    _transpose: u32,
    _n: i32,
    _sides: i32,
    _a: Address,
    _lda: i32,
    _pivots: Address,
    _b: Address,
    _ldb: i32,
    info: Out<i32>,
) -> Status {
    well(handle, info)
}

/// `cublasSgeqrfBatched` and similar functions.
pub fn geqrf(
    handle: Handle,
    _m: i32,
    _n: i32,
    _a: Address,
    _lda: i32,
    _tau: Address,
    info: Out<i32>,
) -> Status {
    well(handle, info)
}

/// `cublasSgelsBatched` and similar functions.
#[allow(clippy::too_many_arguments)]
pub fn gels(
    handle: Handle,
    _transpose: u32,
    _m: i32,
    _n: i32,
    _sides: i32,
    _a: Address,
    _lda: i32,
    _c: Address,
    _ldc: i32,
    info: Out<i32>,
    statuses: Address,
    count: i32,
) -> Status {
    info.put_if_asked(0);
    all_well(handle, statuses, count)
}

//! Routines that take the types of their matrices, and sizes of workspaces in bytes.

use super::routine::routines;
use crate::workspace::{geev, geqrf, potrf, syev_batched, syevd, sytrs};
use gpumem_sim_client::ffi::{Address, Handle, Out};

routines! {
    cusolverDnXpotrf_bufferSize:
        (handle: Handle, _params: Handle, _uplo: u32, n: i64, kind: u32, _a: Address, _lda: i64, _compute: u32, device: Out<usize>, host: Out<usize>)
        => bytes(handle, kind, device, host, potrf(n));
    cusolverDnXpotrf:
        (handle: Handle, _params: Handle, _uplo: u32, _n: i64, _kind: u32, _a: Address, _lda: i64, _compute: u32, _device: Address, _size: usize, _host: Address, _host_size: usize, info: Address)
        => solve(handle, info, 1);
    cusolverDnXpotrs:
        (handle: Handle, _params: Handle, _uplo: u32, _n: i64, _sides: i64, _kind: u32, _a: Address, _lda: i64, _b_kind: u32, _b: Address, _ldb: i64, info: Address)
        => solve(handle, info, 1);
    cusolverDnXgeqrf_bufferSize:
        (handle: Handle, _params: Handle, m: i64, n: i64, kind: u32, _a: Address, _lda: i64, _tau_kind: u32, _tau: Address, _compute: u32, device: Out<usize>, host: Out<usize>)
        => bytes(handle, kind, device, host, geqrf(m, n));
    cusolverDnXgeqrf:
        (handle: Handle, _params: Handle, _m: i64, _n: i64, _kind: u32, _a: Address, _lda: i64, _tau_kind: u32, _tau: Address, _compute: u32, _device: Address, _size: usize, _host: Address, _host_size: usize, info: Address)
        => solve(handle, info, 1);
    cusolverDnXsyevd_bufferSize:
        (handle: Handle, _params: Handle, job: u32, _uplo: u32, n: i64, kind: u32, _a: Address, _lda: i64, _w_kind: u32, _w: Address, _compute: u32, device: Out<usize>, host: Out<usize>)
        => bytes(handle, kind, device, host, syevd(job, n));
    cusolverDnXsyevd:
        (handle: Handle, _params: Handle, _job: u32, _uplo: u32, _n: i64, _kind: u32, _a: Address, _lda: i64, _w_kind: u32, _w: Address, _compute: u32, _device: Address, _size: usize, _host: Address, _host_size: usize, info: Address)
        => solve(handle, info, 1);
    cusolverDnXsyevBatched_bufferSize:
        (handle: Handle, _params: Handle, job: u32, _uplo: u32, n: i64, kind: u32, _a: Address, _lda: i64, _w_kind: u32, _w: Address, _compute: u32, device: Out<usize>, host: Out<usize>, batch: i64)
        => bytes(handle, kind, device, host, syev_batched(job, n, batch));
    cusolverDnXsyevBatched:
        (handle: Handle, _params: Handle, _job: u32, _uplo: u32, _n: i64, _kind: u32, _a: Address, _lda: i64, _w_kind: u32, _w: Address, _compute: u32, _device: Address, _size: usize, _host: Address, _host_size: usize, info: Address, batch: i64)
        => solve(handle, info, batch);
    cusolverDnXgeev_bufferSize:
        (handle: Handle, _params: Handle, _left: u32, _right: u32, n: i64, kind: u32, _a: Address, _lda: i64, _w_kind: u32, _w: Address, _vl_kind: u32, _vl: Address, _ldvl: i64, _vr_kind: u32, _vr: Address, _ldvr: i64, _compute: u32, device: Out<usize>, host: Out<usize>)
        => bytes(handle, kind, device, host, geev(n));
    cusolverDnXgeev:
        (handle: Handle, _params: Handle, _left: u32, _right: u32, _n: i64, _kind: u32, _a: Address, _lda: i64, _w_kind: u32, _w: Address, _vl_kind: u32, _vl: Address, _ldvl: i64, _vr_kind: u32, _vr: Address, _ldvr: i64, _compute: u32, _device: Address, _size: usize, _host: Address, _host_size: usize, info: Address)
        => solve(handle, info, 1);
    cusolverDnXsytrs_bufferSize:
        (handle: Handle, _uplo: u32, n: i64, sides: i64, kind: u32, _a: Address, _lda: i64, _pivots: Address, _b_kind: u32, _b: Address, _ldb: i64, device: Out<usize>, host: Out<usize>)
        => bytes(handle, kind, device, host, sytrs(n, sides));
    cusolverDnXsytrs:
        (handle: Handle, _uplo: u32, _n: i64, _sides: i64, _kind: u32, _a: Address, _lda: i64, _pivots: Address, _b_kind: u32, _b: Address, _ldb: i64, _device: Address, _size: usize, _host: Address, _host_size: usize, info: Address)
        => solve(handle, info, 1);
}

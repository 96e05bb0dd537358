//! Sizes of workspaces, in elements.

use super::routine::routines;
use crate::workspace::{
    geqrf, gesvd, gesvda_batched, gesvdj, gesvdj_batched, getrf, ormqr, potrf, syevd,
    syevj_batched, sytrf,
};
use gpumem_sim_client::ffi::{Address, Handle, Out};

routines! {
    cusolverDnSpotrf_bufferSize cusolverDnDpotrf_bufferSize cusolverDnCpotrf_bufferSize cusolverDnZpotrf_bufferSize:
        (handle: Handle, _uplo: u32, n: i32, _a: Address, _lda: i32, size: Out<i32>)
        => elements(handle, size, potrf(n));
    cusolverDnSgetrf_bufferSize cusolverDnDgetrf_bufferSize cusolverDnCgetrf_bufferSize cusolverDnZgetrf_bufferSize:
        (handle: Handle, m: i32, n: i32, _a: Address, _lda: i32, size: Out<i32>)
        => elements(handle, size, getrf(m, n));
    cusolverDnSgeqrf_bufferSize cusolverDnDgeqrf_bufferSize cusolverDnCgeqrf_bufferSize cusolverDnZgeqrf_bufferSize:
        (handle: Handle, m: i32, n: i32, _a: Address, _lda: i32, size: Out<i32>)
        => elements(handle, size, geqrf(m, n));
    cusolverDnSorgqr_bufferSize cusolverDnDorgqr_bufferSize cusolverDnCungqr_bufferSize cusolverDnZungqr_bufferSize:
        (handle: Handle, m: i32, n: i32, _k: i32, _a: Address, _lda: i32, _tau: Address, size: Out<i32>)
        => elements(handle, size, geqrf(m, n));
    cusolverDnSormqr_bufferSize cusolverDnDormqr_bufferSize cusolverDnCunmqr_bufferSize cusolverDnZunmqr_bufferSize:
        (handle: Handle, side: u32, _transpose: u32, m: i32, n: i32, _k: i32, _a: Address, _lda: i32, _tau: Address, _c: Address, _ldc: i32, size: Out<i32>)
        => elements(handle, size, ormqr(side, m, n));
    cusolverDnSsytrf_bufferSize cusolverDnDsytrf_bufferSize cusolverDnCsytrf_bufferSize cusolverDnZsytrf_bufferSize:
        (handle: Handle, n: i32, _a: Address, _lda: i32, size: Out<i32>)
        => elements(handle, size, sytrf(n));
    cusolverDnSgesvd_bufferSize cusolverDnDgesvd_bufferSize cusolverDnCgesvd_bufferSize cusolverDnZgesvd_bufferSize:
        (handle: Handle, m: i32, n: i32, size: Out<i32>)
        => elements(handle, size, gesvd(m, n));
    cusolverDnSgesvdj_bufferSize cusolverDnDgesvdj_bufferSize cusolverDnCgesvdj_bufferSize cusolverDnZgesvdj_bufferSize:
        (handle: Handle, _job: u32, _economy: i32, m: i32, n: i32, _a: Address, _lda: i32, _s: Address, _u: Address, _ldu: i32, _v: Address, _ldv: i32, size: Out<i32>, _jacobi: Handle)
        => elements(handle, size, gesvdj(m, n));
    cusolverDnSgesvdjBatched_bufferSize cusolverDnDgesvdjBatched_bufferSize cusolverDnCgesvdjBatched_bufferSize cusolverDnZgesvdjBatched_bufferSize:
        (handle: Handle, _job: u32, m: i32, n: i32, _a: Address, _lda: i32, _s: Address, _u: Address, _ldu: i32, _v: Address, _ldv: i32, size: Out<i32>, _jacobi: Handle, batch: i32)
        => elements(handle, size, gesvdj_batched(m, n, batch));
    cusolverDnSgesvdaStridedBatched_bufferSize cusolverDnDgesvdaStridedBatched_bufferSize cusolverDnCgesvdaStridedBatched_bufferSize cusolverDnZgesvdaStridedBatched_bufferSize:
        (handle: Handle, _job: u32, _rank: i32, m: i32, n: i32, _a: Address, _lda: i32, _a_step: i64, _s: Address, _s_step: i64, _u: Address, _ldu: i32, _u_step: i64, _v: Address, _ldv: i32, _v_step: i64, size: Out<i32>, batch: i32)
        => elements(handle, size, gesvda_batched(m, n, batch));
    cusolverDnSsyevd_bufferSize cusolverDnDsyevd_bufferSize cusolverDnCheevd_bufferSize cusolverDnZheevd_bufferSize:
        (handle: Handle, job: u32, _uplo: u32, n: i32, _a: Address, _lda: i32, _w: Address, size: Out<i32>)
        => elements(handle, size, syevd(job, n));
    cusolverDnSsyevjBatched_bufferSize cusolverDnDsyevjBatched_bufferSize cusolverDnCheevjBatched_bufferSize cusolverDnZheevjBatched_bufferSize:
        (handle: Handle, _job: u32, _uplo: u32, n: i32, _a: Address, _lda: i32, _w: Address, size: Out<i32>, _jacobi: Handle, batch: i32)
        => elements(handle, size, syevj_batched(n, batch));
}

//! Factorisations and solvers, in four types each.

use super::routine::routines;
use gpumem_sim_client::ffi::{Address, Handle};

routines! {
    cusolverDnSpotrf cusolverDnDpotrf cusolverDnCpotrf cusolverDnZpotrf:
        (handle: Handle, _uplo: u32, _n: i32, _a: Address, _lda: i32, _work: Address, _size: i32, info: Address)
        => solve(handle, info, 1);
    cusolverDnSpotrfBatched cusolverDnDpotrfBatched cusolverDnCpotrfBatched cusolverDnZpotrfBatched:
        (handle: Handle, _uplo: u32, _n: i32, _a: Address, _lda: i32, info: Address, batch: i32)
        => solve(handle, info, batch);
    cusolverDnSpotrs cusolverDnDpotrs cusolverDnCpotrs cusolverDnZpotrs:
        (handle: Handle, _uplo: u32, _n: i32, _sides: i32, _a: Address, _lda: i32, _b: Address, _ldb: i32, info: Address)
        => solve(handle, info, 1);
    cusolverDnSpotrsBatched cusolverDnDpotrsBatched cusolverDnCpotrsBatched cusolverDnZpotrsBatched:
        (handle: Handle, _uplo: u32, _n: i32, _sides: i32, _a: Address, _lda: i32, _b: Address, _ldb: i32, info: Address, _batch: i32)
        => solve(handle, info, 1);
    cusolverDnSgetrf cusolverDnDgetrf cusolverDnCgetrf cusolverDnZgetrf:
        (handle: Handle, _m: i32, _n: i32, _a: Address, _lda: i32, _work: Address, _pivots: Address, info: Address)
        => solve(handle, info, 1);
    cusolverDnSgetrs cusolverDnDgetrs cusolverDnCgetrs cusolverDnZgetrs:
        (handle: Handle, _transpose: u32, _n: i32, _sides: i32, _a: Address, _lda: i32, _pivots: Address, _b: Address, _ldb: i32, info: Address)
        => solve(handle, info, 1);
    cusolverDnSgeqrf cusolverDnDgeqrf cusolverDnCgeqrf cusolverDnZgeqrf:
        (handle: Handle, _m: i32, _n: i32, _a: Address, _lda: i32, _tau: Address, _work: Address, _size: i32, info: Address)
        => solve(handle, info, 1);
    cusolverDnSorgqr cusolverDnDorgqr cusolverDnCungqr cusolverDnZungqr:
        (handle: Handle, _m: i32, _n: i32, _k: i32, _a: Address, _lda: i32, _tau: Address, _work: Address, _size: i32, info: Address)
        => solve(handle, info, 1);
    cusolverDnSormqr cusolverDnDormqr cusolverDnCunmqr cusolverDnZunmqr:
        (handle: Handle, _side: u32, _transpose: u32, _m: i32, _n: i32, _k: i32, _a: Address, _lda: i32, _tau: Address, _c: Address, _ldc: i32, _work: Address, _size: i32, info: Address)
        => solve(handle, info, 1);
    cusolverDnSsytrf cusolverDnDsytrf cusolverDnCsytrf cusolverDnZsytrf:
        (handle: Handle, _uplo: u32, _n: i32, _a: Address, _lda: i32, _pivots: Address, _work: Address, _size: i32, info: Address)
        => solve(handle, info, 1);
    cusolverDnSgesvd cusolverDnDgesvd cusolverDnCgesvd cusolverDnZgesvd:
        (handle: Handle, _job_u: i8, _job_v: i8, _m: i32, _n: i32, _a: Address, _lda: i32, _s: Address, _u: Address, _ldu: i32, _v: Address, _ldv: i32, _work: Address, _size: i32, _real: Address, info: Address)
        => solve(handle, info, 1);
    cusolverDnSgesvdj cusolverDnDgesvdj cusolverDnCgesvdj cusolverDnZgesvdj:
        (handle: Handle, _job: u32, _economy: i32, _m: i32, _n: i32, _a: Address, _lda: i32, _s: Address, _u: Address, _ldu: i32, _v: Address, _ldv: i32, _work: Address, _size: i32, info: Address, _jacobi: Handle)
        => solve(handle, info, 1);
    cusolverDnSgesvdjBatched cusolverDnDgesvdjBatched cusolverDnCgesvdjBatched cusolverDnZgesvdjBatched:
        (handle: Handle, _job: u32, _m: i32, _n: i32, _a: Address, _lda: i32, _s: Address, _u: Address, _ldu: i32, _v: Address, _ldv: i32, _work: Address, _size: i32, info: Address, _jacobi: Handle, batch: i32)
        => solve(handle, info, batch);
    cusolverDnSgesvdaStridedBatched cusolverDnDgesvdaStridedBatched cusolverDnCgesvdaStridedBatched cusolverDnZgesvdaStridedBatched:
        (handle: Handle, _job: u32, _rank: i32, _m: i32, _n: i32, _a: Address, _lda: i32, _a_step: i64, _s: Address, _s_step: i64, _u: Address, _ldu: i32, _u_step: i64, _v: Address, _ldv: i32, _v_step: i64, _work: Address, _size: i32, info: Address, residuals: Address, batch: i32)
        => solve_with_residuals(handle, info, residuals, batch);
    cusolverDnSsyevd cusolverDnDsyevd cusolverDnCheevd cusolverDnZheevd:
        (handle: Handle, _job: u32, _uplo: u32, _n: i32, _a: Address, _lda: i32, _w: Address, _work: Address, _size: i32, info: Address)
        => solve(handle, info, 1);
    cusolverDnSsyevjBatched cusolverDnDsyevjBatched cusolverDnCheevjBatched cusolverDnZheevjBatched:
        (handle: Handle, _job: u32, _uplo: u32, _n: i32, _a: Address, _lda: i32, _w: Address, _work: Address, _size: i32, info: Address, _jacobi: Handle, batch: i32)
        => solve(handle, info, batch);
}

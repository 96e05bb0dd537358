//! Computations: each checks its handle, succeeds, and computes nothing.

use crate::handle::compute;
use gpumem_sim_client::blas::Status;
use gpumem_sim_client::ffi::Handle;

/// Makes exports that check their first parameter, the handle, and ignore the others.
macro_rules! computations {
    ($($(#[$doc:meta])* $family:ident { $($name:ident)* })*) => {
        $(
            $(#[$doc])*
            pub const $family: &[&str] = &[$(stringify!($name)),*];
        )*

        $($(
            #[doc = concat!("`", stringify!($name), "`.")]
            #[unsafe(no_mangle)]
            #[allow(non_snake_case)]
            pub extern "C" fn $name(handle: Handle) -> Status {
                compute(handle)
            }
        )*)*
    };
}

computations! {
    /// Vectors.
    LEVEL_1 {
        cublasAxpyEx cublasAxpyEx_64 cublasCaxpy_v2 cublasCaxpy_v2_64 cublasCcopy_v2
        cublasCcopy_v2_64 cublasCopyEx cublasCopyEx_64 cublasCrot_v2 cublasCrot_v2_64
        cublasCrotg_v2 cublasCscal_v2 cublasCscal_v2_64 cublasCsrot_v2 cublasCsrot_v2_64
        cublasCsscal_v2 cublasCsscal_v2_64 cublasCswap_v2 cublasCswap_v2_64 cublasDaxpy_v2
        cublasDaxpy_v2_64 cublasDcopy_v2 cublasDcopy_v2_64 cublasDrot_v2 cublasDrot_v2_64
        cublasDrotg_v2 cublasDrotm_v2 cublasDrotm_v2_64 cublasDrotmg_v2 cublasDscal_v2
        cublasDscal_v2_64 cublasDswap_v2 cublasDswap_v2_64 cublasIamaxEx cublasIamaxEx_64
        cublasIaminEx cublasIaminEx_64 cublasRotEx cublasRotEx_64 cublasRotgEx cublasRotmEx
        cublasRotmEx_64 cublasRotmgEx cublasSaxpy_v2 cublasSaxpy_v2_64 cublasScalEx cublasScalEx_64
        cublasScopy_v2 cublasScopy_v2_64 cublasSrot_v2 cublasSrot_v2_64 cublasSrotg_v2
        cublasSrotm_v2 cublasSrotm_v2_64 cublasSrotmg_v2 cublasSscal_v2 cublasSscal_v2_64
        cublasSswap_v2 cublasSswap_v2_64 cublasSwapEx cublasSwapEx_64 cublasZaxpy_v2
        cublasZaxpy_v2_64 cublasZcopy_v2 cublasZcopy_v2_64 cublasZdrot_v2 cublasZdrot_v2_64
        cublasZdscal_v2 cublasZdscal_v2_64 cublasZrot_v2 cublasZrot_v2_64 cublasZrotg_v2
        cublasZscal_v2 cublasZscal_v2_64 cublasZswap_v2 cublasZswap_v2_64
    }
    /// A matrix and a vector.
    LEVEL_2 {
        cublasCgbmv_v2 cublasCgbmv_v2_64 cublasCgemv_v2 cublasCgemv_v2_64 cublasCgerc_v2
        cublasCgerc_v2_64 cublasCgeru_v2 cublasCgeru_v2_64 cublasChbmv_v2 cublasChbmv_v2_64
        cublasChemv_v2 cublasChemv_v2_64 cublasCher2_v2 cublasCher2_v2_64 cublasCher_v2
        cublasCher_v2_64 cublasChpmv_v2 cublasChpmv_v2_64 cublasChpr2_v2 cublasChpr2_v2_64
        cublasChpr_v2 cublasChpr_v2_64 cublasCsymv_v2 cublasCsymv_v2_64 cublasCsyr2_v2
        cublasCsyr2_v2_64 cublasCsyr_v2 cublasCsyr_v2_64 cublasCtbmv_v2 cublasCtbmv_v2_64
        cublasCtbsv_v2 cublasCtbsv_v2_64 cublasCtpmv_v2 cublasCtpmv_v2_64 cublasCtpsv_v2
        cublasCtpsv_v2_64 cublasCtrmv_v2 cublasCtrmv_v2_64 cublasCtrsv_v2 cublasCtrsv_v2_64
        cublasDgbmv_v2 cublasDgbmv_v2_64 cublasDgemv_v2 cublasDgemv_v2_64 cublasDger_v2
        cublasDger_v2_64 cublasDsbmv_v2 cublasDsbmv_v2_64 cublasDspmv_v2 cublasDspmv_v2_64
        cublasDspr2_v2 cublasDspr2_v2_64 cublasDspr_v2 cublasDspr_v2_64 cublasDsymv_v2
        cublasDsymv_v2_64 cublasDsyr2_v2 cublasDsyr2_v2_64 cublasDsyr_v2 cublasDsyr_v2_64
        cublasDtbmv_v2 cublasDtbmv_v2_64 cublasDtbsv_v2 cublasDtbsv_v2_64 cublasDtpmv_v2
        cublasDtpmv_v2_64 cublasDtpsv_v2 cublasDtpsv_v2_64 cublasDtrmv_v2 cublasDtrmv_v2_64
        cublasDtrsv_v2 cublasDtrsv_v2_64 cublasSgbmv_v2 cublasSgbmv_v2_64 cublasSgemv_v2
        cublasSgemv_v2_64 cublasSger_v2 cublasSger_v2_64 cublasSsbmv_v2 cublasSsbmv_v2_64
        cublasSspmv_v2 cublasSspmv_v2_64 cublasSspr2_v2 cublasSspr2_v2_64 cublasSspr_v2
        cublasSspr_v2_64 cublasSsymv_v2 cublasSsymv_v2_64 cublasSsyr2_v2 cublasSsyr2_v2_64
        cublasSsyr_v2 cublasSsyr_v2_64 cublasStbmv_v2 cublasStbmv_v2_64 cublasStbsv_v2
        cublasStbsv_v2_64 cublasStpmv_v2 cublasStpmv_v2_64 cublasStpsv_v2 cublasStpsv_v2_64
        cublasStrmv_v2 cublasStrmv_v2_64 cublasStrsv_v2 cublasStrsv_v2_64 cublasZgbmv_v2
        cublasZgbmv_v2_64 cublasZgemv_v2 cublasZgemv_v2_64 cublasZgerc_v2 cublasZgerc_v2_64
        cublasZgeru_v2 cublasZgeru_v2_64 cublasZhbmv_v2 cublasZhbmv_v2_64 cublasZhemv_v2
        cublasZhemv_v2_64 cublasZher2_v2 cublasZher2_v2_64 cublasZher_v2 cublasZher_v2_64
        cublasZhpmv_v2 cublasZhpmv_v2_64 cublasZhpr2_v2 cublasZhpr2_v2_64 cublasZhpr_v2
        cublasZhpr_v2_64 cublasZsymv_v2 cublasZsymv_v2_64 cublasZsyr2_v2 cublasZsyr2_v2_64
        cublasZsyr_v2 cublasZsyr_v2_64 cublasZtbmv_v2 cublasZtbmv_v2_64 cublasZtbsv_v2
        cublasZtbsv_v2_64 cublasZtpmv_v2 cublasZtpmv_v2_64 cublasZtpsv_v2 cublasZtpsv_v2_64
        cublasZtrmv_v2 cublasZtrmv_v2_64 cublasZtrsv_v2 cublasZtrsv_v2_64
    }
    /// Matrices.
    LEVEL_3 {
        cublasCgemm3m cublasCgemm3m_64 cublasCgemm_v2 cublasCgemm_v2_64 cublasChemm_v2
        cublasChemm_v2_64 cublasCher2k_v2 cublasCher2k_v2_64 cublasCherk_v2 cublasCherk_v2_64
        cublasCherkx cublasCherkx_64 cublasCsymm_v2 cublasCsymm_v2_64 cublasCsyr2k_v2
        cublasCsyr2k_v2_64 cublasCsyrk_v2 cublasCsyrk_v2_64 cublasCsyrkx cublasCsyrkx_64
        cublasCtrmm_v2 cublasCtrmm_v2_64 cublasCtrsm_v2 cublasCtrsm_v2_64 cublasDgemm_v2
        cublasDgemm_v2_64 cublasDsymm_v2 cublasDsymm_v2_64 cublasDsyr2k_v2 cublasDsyr2k_v2_64
        cublasDsyrk_v2 cublasDsyrk_v2_64 cublasDsyrkx cublasDsyrkx_64 cublasDtrmm_v2
        cublasDtrmm_v2_64 cublasDtrsm_v2 cublasDtrsm_v2_64 cublasHgemm cublasHgemm_64
        cublasSgemm_v2 cublasSgemm_v2_64 cublasSsymm_v2 cublasSsymm_v2_64 cublasSsyr2k_v2
        cublasSsyr2k_v2_64 cublasSsyrk_v2 cublasSsyrk_v2_64 cublasSsyrkx cublasSsyrkx_64
        cublasStrmm_v2 cublasStrmm_v2_64 cublasStrsm_v2 cublasStrsm_v2_64 cublasZgemm3m
        cublasZgemm3m_64 cublasZgemm_v2 cublasZgemm_v2_64 cublasZhemm_v2 cublasZhemm_v2_64
        cublasZher2k_v2 cublasZher2k_v2_64 cublasZherk_v2 cublasZherk_v2_64 cublasZherkx
        cublasZherkx_64 cublasZsymm_v2 cublasZsymm_v2_64 cublasZsyr2k_v2 cublasZsyr2k_v2_64
        cublasZsyrk_v2 cublasZsyrk_v2_64 cublasZsyrkx cublasZsyrkx_64 cublasZtrmm_v2
        cublasZtrmm_v2_64 cublasZtrsm_v2 cublasZtrsm_v2_64
    }
    /// Batches, mixed types, transposition, packing.
    EXTENSIONS {
        cublasCbdmm cublasCdgmm cublasCdgmm_64 cublasCgeam cublasCgeam_64 cublasCgemm3mBatched
        cublasCgemm3mBatched_64 cublasCgemm3mEx cublasCgemm3mEx_64 cublasCgemm3mStridedBatched
        cublasCgemm3mStridedBatched_64 cublasCgemmBatched cublasCgemmBatched_64 cublasCgemmEx
        cublasCgemmEx_64 cublasCgemmStridedBatched cublasCgemmStridedBatched_64 cublasCgemvBatched
        cublasCgemvBatched_64 cublasCgemvStridedBatched cublasCgemvStridedBatched_64
        cublasCherk3mEx cublasCherk3mEx_64 cublasCherkEx cublasCherkEx_64 cublasCsyrk3mEx
        cublasCsyrk3mEx_64 cublasCsyrkEx cublasCsyrkEx_64 cublasCtpttr cublasCtrsmBatched
        cublasCtrsmBatched_64 cublasCtrttp cublasDbdmm cublasDdgmm cublasDdgmm_64 cublasDgeam
        cublasDgeam_64 cublasDgemmBatched cublasDgemmBatched_64 cublasDgemmGroupedBatched
        cublasDgemmGroupedBatched_64 cublasDgemmStridedBatched cublasDgemmStridedBatched_64
        cublasDgemvBatched cublasDgemvBatched_64 cublasDgemvStridedBatched
        cublasDgemvStridedBatched_64 cublasDtpttr cublasDtrsmBatched cublasDtrsmBatched_64
        cublasDtrttp cublasGemmBatchedEx cublasGemmBatchedEx_64 cublasGemmEx cublasGemmEx_64
        cublasGemmGroupedBatchedEx cublasGemmGroupedBatchedEx_64 cublasGemmStridedBatchedEx
        cublasGemmStridedBatchedEx_64 cublasHSHgemvBatched cublasHSHgemvBatched_64
        cublasHSHgemvStridedBatched cublasHSHgemvStridedBatched_64 cublasHSSgemvBatched
        cublasHSSgemvBatched_64 cublasHSSgemvStridedBatched cublasHSSgemvStridedBatched_64
        cublasHgemmBatched cublasHgemmBatched_64 cublasHgemmStridedBatched
        cublasHgemmStridedBatched_64 cublasSbdmm cublasSdgmm cublasSdgmm_64 cublasSgeam
        cublasSgeam_64 cublasSgemmBatched cublasSgemmBatched_64 cublasSgemmEx cublasSgemmEx_64
        cublasSgemmGroupedBatched cublasSgemmGroupedBatched_64 cublasSgemmStridedBatched
        cublasSgemmStridedBatched_64 cublasSgemvBatched cublasSgemvBatched_64
        cublasSgemvStridedBatched cublasSgemvStridedBatched_64 cublasStpttr cublasStrsmBatched
        cublasStrsmBatched_64 cublasStrttp cublasTSSgemvBatched cublasTSSgemvBatched_64
        cublasTSSgemvStridedBatched cublasTSSgemvStridedBatched_64 cublasTSTgemvBatched
        cublasTSTgemvBatched_64 cublasTSTgemvStridedBatched cublasTSTgemvStridedBatched_64
        cublasUint8gemmBias cublasZbdmm cublasZdgmm cublasZdgmm_64 cublasZgeam cublasZgeam_64
        cublasZgemmBatched cublasZgemmBatched_64 cublasZgemmStridedBatched
        cublasZgemmStridedBatched_64 cublasZgemvBatched cublasZgemvBatched_64
        cublasZgemvStridedBatched cublasZgemvStridedBatched_64 cublasZtpttr cublasZtrsmBatched
        cublasZtrsmBatched_64 cublasZtrttp
    }
}

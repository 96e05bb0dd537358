//! Functions that are not simulated. They exist so that programs link, and print a message when
//! called.

use gpumem_sim_client::blas::Status;

/// Makes exports that ignore their parameters.
macro_rules! unsupported {
    ($($name:ident)*) => {
        /// The names of this family.
        pub const NAMES: &[&str] = &[$(stringify!($name)),*];

        $(
            #[doc = concat!("`", stringify!($name), "`.")]
            #[unsafe(no_mangle)]
            #[allow(non_snake_case)]
            pub extern "C" fn $name() -> Status {
                Status::NOT_SUPPORTED
            }
        )*
    };
}

unsupported! {
    cublasGetBackdoor cublasGetFixedPointEmulationMantissaBitCountPointer cublasGetLoggerCallback
    cublasSetBackdoor cublasSetBackdoorEx cublasSetFixedPointEmulationMantissaBitCountPointer
    cublasXtCgemm cublasXtChemm cublasXtCher2k cublasXtCherk cublasXtCherkx cublasXtCreate
    cublasXtCspmm cublasXtCsymm cublasXtCsyr2k cublasXtCsyrk cublasXtCsyrkx cublasXtCtrmm
    cublasXtCtrsm cublasXtDestroy cublasXtDeviceSelect cublasXtDgemm cublasXtDspmm cublasXtDsymm
    cublasXtDsyr2k cublasXtDsyrk cublasXtDsyrkx cublasXtDtrmm cublasXtDtrsm cublasXtGetBlockDim
    cublasXtGetNumBoards cublasXtGetPinningMemMode cublasXtMaxBoards cublasXtSetBlockDim
    cublasXtSetCpuRatio cublasXtSetCpuRoutine cublasXtSetPinningMemMode cublasXtSgemm cublasXtSspmm
    cublasXtSsymm cublasXtSsyr2k cublasXtSsyrk cublasXtSsyrkx cublasXtStrmm cublasXtStrsm
    cublasXtZgemm cublasXtZhemm cublasXtZher2k cublasXtZherk cublasXtZherkx cublasXtZspmm
    cublasXtZsymm cublasXtZsyr2k cublasXtZsyrk cublasXtZsyrkx cublasXtZtrmm cublasXtZtrsm
}

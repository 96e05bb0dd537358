//! The simulated `libcublas.so.13`: its handles and its memory are real, its computations are not.
//!
//! A handle allocates a workspace on the device when it is created and frees it when it is
//! destroyed, through the driver as in the real library, so that reports show an owner `libcublas`.
//! Modes and streams are stored. Products succeed without being computed; results on the host are
//! zero, and so are the statuses of factorisations.
//!
//! # Environment
//! `GPUMEM_SIM_CUBLAS_BYTES`: the workspace of a handle (8 MiB; 0 for none).
//!
//! # Not suitable for
//! Computing anything. The interface without handles (`cublas.h`), cuBLASXt.

mod copy;
mod handle;
mod result;
pub mod table;

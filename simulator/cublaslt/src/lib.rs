//! The simulated `libcublasLt.so.13`: descriptors and preferences are real, matrices are not.
//!
//! Descriptors remember their attributes, the heuristic offers one algorithm that keeps within the
//! workspace that the caller allows, and products succeed without being computed. It allocates no
//! device memory: the workspace is the caller's, as with the real one.
//!
//! # Not suitable for
//! Computing anything. NVIDIA's cuBLAS, which uses functions of cuBLASLt that are not public.

mod algorithm;
mod descriptor;
pub mod table;

//! The simulated `libcublasLt.so.13`: descriptors and preferences are real, computations are not.
//!
//! Descriptors store their attributes, the heuristic offers one algorithm that needs no more than
//! the workspace that the caller allows, and products succeed without being computed. The library
//! allocates no device memory: the workspace is the caller's, as in the real one.
//!
//! # Not suitable for
//! Computing anything. NVIDIA's cuBLAS, which uses functions of cuBLASLt that are not public.

mod algorithm;
mod descriptor;
pub mod table;

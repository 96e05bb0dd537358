//! The simulated `libcublas.so.12`: `libcublas.so.13` under the name that cuBLAS has in CUDA 12.

// Exports the functions of this library.
extern crate simcublas as _;

gpumem_sim_client::belongs_to_cuda12!();

//! The simulated `libcublasLt.so.12`: `libcublasLt.so.13` under the name that cuBLASLt has in CUDA 12.

// Exports the functions of this library.
extern crate simcublaslt as _;

gpumem_sim_client::belongs_to_cuda12!();

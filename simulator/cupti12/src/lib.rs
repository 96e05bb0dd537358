//! The simulated `libcupti.so.12`: `libcupti.so.13` under the name that CUPTI has in CUDA 12.

// Exports the functions of this library.
extern crate simcupti as _;

gpumem_sim_client::belongs_to_cuda12!();

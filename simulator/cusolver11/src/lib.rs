//! The simulated `libcusolver.so.11`: `libcusolver.so.12` under the name that cuSOLVER has in CUDA 12.

// Exports the functions of this library.
extern crate simcusolver as _;

gpumem_sim_client::belongs_to_cuda12!();

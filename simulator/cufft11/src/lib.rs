//! The simulated `libcufft.so.11`: `libcufft.so.12` under the name that cuFFT has in CUDA 12.

// Exports the functions of this library.
extern crate simcufft as _;

gpumem_sim_client::belongs_to_cuda12!();

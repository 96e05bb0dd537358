//! How the simulated runtime and the libraries above it reach the driver.
//!
//! As NVIDIA's do: `libcuda.so.1` by `dlopen`, `cuGetProcAddress_v2` by `dlsym`, and every other
//! function from `cuGetProcAddress` with the version that NVIDIA's runtime of CUDA 13.2 asks for.
//! An interposer hooks exactly these two paths, so nothing here may take a shorter one.
//!
//! - [`ffi`]: what passes between C and these libraries, as types that can be used safely;
//! - [`wanted`]: the driver's functions that are used, from the table in `rows.rs`;
//! - [`driver`]: finding the driver and its functions;
//! - [`functions`]: one safe wrapper for each, from the same table;
//! - [`release`]: which CUDA a library belongs to;
//! - [`level`]: which end of a range a model's figure is taken from;
//! - [`unsupported`]: exports that only say that they do nothing.
//!
//! # Not suitable for
//! Programs that have the driver at link time.

pub mod blas;
pub mod driver;
mod export;
pub mod ffi;
pub mod functions;
pub mod level;
pub mod release;
mod rows;
pub mod structures;
pub mod unsupported;
pub mod wanted;

pub use functions as cu;

//! How the simulated runtime and the libraries above it reach the driver.
//!
//! They load it as NVIDIA's do: `libcuda.so.1` by `dlopen`, `cuGetProcAddress_v2` by `dlsym`, and
//! every other function from `cuGetProcAddress` with the version that NVIDIA's runtime of CUDA 13.2
//! requests. An interposer hooks exactly these two paths, so this crate takes no shorter one.
//!
//! - [`ffi`]: types for values that pass between C and these libraries, with a safe interface;
//! - [`wanted`]: the driver's functions that are used, from the table in `rows.rs`;
//! - [`driver`]: finding the driver and its functions;
//! - [`functions`]: one safe wrapper for each, from the same table;
//! - [`release`]: which CUDA a library belongs to;
//! - [`level`]: the low, likely or high figure of a model;
//! - [`unsupported`]: exports that only print that they are not simulated.
//!
//! # Not suitable for
//! Programs that link the driver.

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

//! The simulated machine: its devices, its driver's version, and the memory that each object costs.
//!
//! The simulated `libcuda.so.1` and `libnvidia-ml.so.1` are two libraries in one process. Both read
//! the same environment through this crate, so that names, UUIDs and sizes never disagree.
//!
//! # Design constraints
//! - No state and no I/O: a [`Machine`] is made from a look-up function, so tests need no
//!   environment. Warnings about invalid settings are returned, not printed.
//!
//! # Not suitable for
//! Live figures: those are in the driver's books.

#![forbid(unsafe_code)]

mod device;
mod machine;
mod order;
mod settings;
mod size;

pub use device::DeviceSpec;
pub use machine::{Machine, Made, NvmlPids};
pub use size::{ParseSizeError, parse_size};

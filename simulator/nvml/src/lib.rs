//! The simulated `libnvidia-ml.so.1`.
//!
//! It shows the same devices as the simulated `libcuda.so.1`, and its memory figures are that
//! driver's physical books: whole pages, pool chunks and contexts of this process. Without the
//! driver in the process nothing is used and nobody runs.
//!
//! # Design constraints
//! - Devices are those of the machine: `CUDA_VISIBLE_DEVICES` does not matter here, as with the
//!   real NVML. The driver's books are found by UUID, never by index.
//! - Every call but `nvmlErrorString` answers `UNINITIALIZED` before `nvmlInit`.
//!
//! # Not suitable for
//! Seeing other processes: each process has a simulated card of its own. Temperatures, clocks,
//! power and the like are answered with `NOT_SUPPORTED`, or are missing.

mod books;
mod device;
mod library;
mod link;
mod memory;
mod out;
mod result;

pub use device::*;
pub use library::*;
pub use link::*;
pub use memory::*;
pub use result::{Return, nvmlErrorString};

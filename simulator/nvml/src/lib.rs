//! The simulated `libnvidia-ml.so.1`.
//!
//! It shows the same devices as the simulated `libcuda.so.1`, and its memory figures are what that
//! driver took of the cards: whole pages, pool chunks, contexts and modules. Where processes share
//! the cards (`GPUMEM_SIM_CARD`), it tells of all of them, and needs no driver in its own process.
//! Where each process has cards of its own, it tells of this one alone.
//!
//! # Design constraints
//! - Devices are those of the machine: `CUDA_VISIBLE_DEVICES` does not matter here, as with the
//!   real NVML, nor does `CUDA_DEVICE_ORDER`. The driver's books are found by UUID, never by index.
//! - Every call but `nvmlErrorString` answers `UNINITIALIZED` before `nvmlInit`.
//!
//! # Not suitable for
//! Temperatures, clocks, power and the like, which are answered with `NOT_SUPPORTED`, or are missing.

mod books;
mod device;
mod library;
mod link;
mod memory;
mod mig;
mod out;
mod result;
mod started;

pub use device::*;
pub use library::*;
pub use link::*;
pub use memory::*;
pub use mig::*;
pub use result::{Return, nvmlErrorString};

//! The simulated `libnvidia-ml.so.1`.
//!
//! It shows the same devices as the simulated `libcuda.so.1`. Its memory figures are the memory
//! that the driver took from the cards: whole pages, pool chunks, contexts and modules. If
//! processes share the cards (`GPUMEM_SIM_CARD`), it reports all of them, and needs no driver in
//! its own process. If each process has separate cards, it reports only this process.
//!
//! # Design constraints
//! - Devices are those of the machine: `CUDA_VISIBLE_DEVICES` does not matter here, as with the
//!   real NVML, nor does `CUDA_DEVICE_ORDER`. The driver's books are found by UUID, never by index.
//! - Every call but `nvmlErrorString` returns `UNINITIALIZED` before `nvmlInit`.
//!
//! # Not suitable for
//! Temperatures, clocks, power and the like: these functions return `NOT_SUPPORTED`, or are
//! missing.

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

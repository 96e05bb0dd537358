//! The simulated `libcudart.so.13`: the runtime API, implemented with the driver API only.
//!
//! It loads the driver as NVIDIA's does (see [`gpumem_sim_client`]), so an interposer sees the same
//! calls as under the real runtime. It does not depend on the simulation: all memory and every
//! figure are the driver's.
//!
//! # Layout
//! - [`table`]: every export in tables, one family a file; most rows only name the driver function;
//! - [`thread`], [`context`]: a thread's last error and device, and primary contexts made on first
//!   use;
//! - the other modules: functions that need more than a row.
//!
//! # Not suitable for
//! Computing anything. Programs on a real driver: use NVIDIA's runtime. Textures, graphics and
//! semaphores return `cudaErrorNotSupported`.

mod array;
mod bound;
mod context;
mod copy;
mod copy_box;
mod copy_rows;
mod copy_side;
pub mod cuda12;
mod device;
mod entry;
mod error;
mod error_names;
mod fill;
mod function;
mod graph;
mod green;
mod launch;
mod memory;
mod pointer;
mod pool;
mod properties;
mod registry;
mod stream;
mod symbol;
pub mod table;
mod thread;

use gpumem_sim_client::release;

/// The version that the runtime reports: CUDA 13.2, which PyTorch 2.15 brings, or 12.8, which 2.9
/// brings.
fn runtime_version() -> i32 {
    release::of(12080, 13020)
}

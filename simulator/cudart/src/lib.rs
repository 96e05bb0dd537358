//! The simulated `libcudart.so.13`: the runtime API over the driver API, and nothing else.
//!
//! It reaches the driver as NVIDIA's does (see [`gpumem_sim_client`]), so what an interposer sees
//! under it is what it would see under the real one. It knows nothing of the simulation: all memory
//! and every figure are the driver's.
//!
//! # Layout
//! - [`table`]: every export in tables, one family a file; most are a line that names the driver
//!   function;
//! - [`thread`], [`context`]: a thread's last error and device, and primary contexts made on first
//!   use;
//! - the other modules: what needs more than a line.
//!
//! # Not suitable for
//! Computing anything, and for programs on a real driver: NVIDIA's runtime is there. Textures,
//! graphics and semaphores answer `cudaErrorNotSupported`.

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

/// What the runtime says it is: CUDA 13.2, the version that PyTorch 2.15 brings, or 12.8, which 2.9 brings.
fn runtime_version() -> i32 {
    release::of(12080, 13020)
}

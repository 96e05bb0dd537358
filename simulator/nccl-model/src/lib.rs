//! The device memory that NCCL takes on each rank: a model from its source (2.18 to 2.30).
//!
//! A communicator has [structures](Setup::structures) from its start, and transfer buffers for the
//! algorithms that its collectives use: [connections](connections) of rings and trees, the
//! multicast buffer of [NVLS](Setup::nvls), and connections of [send and receive](Setup::send).
//! Each figure is a list of the blocks that NCCL allocates, because with `cuMem` every block takes
//! whole pages.
//!
//! docs/nccl.md has the formulas, their sources and the figures that users have published;
//! `published.rs` compares the model with those figures.
//!
//! # Design constraints
//! Pure: no environment, no driver, no clock. Unknown quantities depend on a [`Level`], above all
//! the number of channels, which NCCL finds by a search of the machine's links.
//!
//! # Not suitable for
//! CollNet and PAT, registered user buffers, memory of NVSHMEM, host memory.
#![forbid(unsafe_code)]

mod blocks;
mod channels;
pub mod connections;
#[cfg(test)]
mod published;
mod setup;
mod use_of;
mod version;

pub use setup::{Buffers, Chunks, Level, Limits, Setup};
pub use use_of::{Algorithms, Collective};
pub use version::Version;

/// 2 MiB: the granularity of `cuMemCreate`, and of buffers that ranks share (`CUDA_IPC_MIN`).
pub const PAGE: u64 = 2 << 20;

/// `NCCL_STEPS`: steps of a buffer.
pub(crate) const STEPS: u64 = 8;

/// Rounds up to whole pages.
pub(crate) fn pages(bytes: u64) -> u64 {
    bytes.div_ceil(PAGE) * PAGE
}

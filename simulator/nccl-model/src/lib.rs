//! How much device memory NCCL takes of each rank: a model, from its source (2.18 to 2.30).
//!
//! A communicator has [structures](Setup::structures) from its start, and transfer buffers of the
//! algorithms that its collectives use: [connections](connections) of rings and trees, the multicast
//! buffer of [NVLS](Setup::nvls), and connections of [send and receive](Setup::send). Each figure is
//! a list of the blocks that NCCL allocates, since with `cuMem` every block takes whole pages.
//!
//! docs/nccl.md has the formulas, their sources and what users have published; `published.rs`
//! compares with that.
//!
//! # Design constraints
//! Pure: no environment, no driver, no clock. What is not known is a [`Level`]: the number of
//! channels most of all, which NCCL finds by a search of the machine's links.
//!
//! # Not suitable for
//! CollNet and PAT, user buffers that are registered, memory of NVSHMEM, memory on the host.
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

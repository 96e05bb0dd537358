//! The simulated `libnccl.so.2`: communicators whose memory is real and whose ranks need not exist.
//!
//! A communicator is created without communication: a process can be rank 7 of 1,024 alone, and
//! eight processes can be eight ranks. Its device memory is allocated through the driver, by the
//! model of `gpumem-nccl-model`: structures at the start, buffers when a collective first uses
//! them. Collectives succeed at once.
//!
//! # Data
//! With one rank every collective is a copy, which is made. With more, nothing is exchanged or
//! added up. Messages of up to GPUMEM_SIM_NCCL_COPY_BYTES are delivered as if every other rank held
//! the same data as this one, as in PyTorch's fake process group. So sizes and flags that ranks
//! agree on can be read back: an all-gather fills all places with the rank's own data.
//!
//! # Environment
//! docs/nccl.md has the table; `settings.rs` reads it.
//!
//! # Not suitable for
//! Exchanging anything between processes. The device-side interface (`ncclDevComm`).

mod collective;
mod comm;
mod config;
mod group;
mod info;
mod memory;
mod register;
mod result;
mod settings;
pub mod table;

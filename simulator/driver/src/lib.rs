//! The simulated `libcuda.so.1`: a CUDA driver with exact accounting of memory that runs no code.
//!
//! Memory is real: allocations are host mappings without reserve, so copies and fills work. Kernels
//! succeed and do nothing. The [books](model::books) record, exact to the byte at every moment, the
//! requested bytes and the bytes that a card would use; tests compare gpumem's figures with them.
//!
//! # Layout
//! - [`model`]: the state, behind one lock: contexts, memory, pools, virtual memory, arrays;
//! - [`api`]: the driver's functions, one family a file;
//! - [`table`]: every exported name in one table, which also answers `cuGetProcAddress`;
//! - [`calls`]: counts the calls of functions of virtual memory;
//! - [`addresses`]: which addresses new memory gets;
//! - [`clock`]: the time of events;
//! - [`ffi`], [`host`], [`files`]: pointers from C, host address space, and the memory files by
//!   which processes share memory;
//! - [`sparse`]: copies that skip zeros.
//!
//! # Not suitable for
//! Computing anything. The driver fails NVIDIA's driver-validity check: runtimes from 11.2 on
//! perform it and rightly refuse to run here.

pub mod addresses;
pub mod api;
pub mod calls;
pub mod clock;
pub mod ffi;
pub mod files;
pub mod host;
pub mod model;
pub mod report;
pub mod sparse;
pub mod table;

//! The simulated `libcuda.so.1`: a CUDA driver that keeps the truth about memory and runs nothing.
//!
//! Memory is real: allocations are host mappings without reserve, so copies and fills work. Kernels
//! succeed and do nothing. The [books](model::books) say at every moment, to the byte, what was
//! asked for and what a card would have given; they are what gpumem's own figures are tested
//! against.
//!
//! # Layout
//! - [`model`]: the state, behind one lock: contexts, memory, pools, virtual memory, arrays;
//! - [`api`]: the driver's functions, one family a file;
//! - [`table`]: every exported name in one table, which also answers `cuGetProcAddress`;
//! - [`calls`]: how often functions of virtual memory were called;
//! - [`clock`]: the time that events have;
//! - [`ffi`], [`host`], [`files`]: pointers from C, address space from the host, and the files in
//!   memory by which processes share it;
//! - [`sparse`]: copies that leave zeros out.
//!
//! # Not suitable for
//! Computing anything. And it never answers NVIDIA's driver-validity check: runtimes from 11.2 on
//! ask for it and rightly refuse to run here.

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

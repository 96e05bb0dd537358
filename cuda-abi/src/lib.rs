//! CUDA's application binary interface: handles, result codes and structures as C lays them out.
//!
//! # Design constraints
//! - Every foreign integer is a transparent newtype, never a Rust enum: a newer driver may return a
//!   value that this crate does not know, and it must pass through unchanged.
//! - No functions, no I/O, no state: the interposer and the simulator share only these types.
//! - Sizes are checked in tests against the bindings of the `cudarc` crate.
//!
//! # Not suitable for
//! Calling CUDA. Use a binding crate for that.

#![forbid(unsafe_code)]

mod copy;
mod graph;
mod handles;
mod memory;
mod result;
mod runtime;

pub use copy::*;
pub use graph::*;
pub use handles::*;
pub use memory::*;
pub use result::*;
pub use runtime::*;

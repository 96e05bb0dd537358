//! Interfaces to Linux and to the loader for a library that runs inside another program.
//!
//! Everything here may run inside a hook: nothing allocates, panics or takes a lock of this crate, and `errno` keeps
//! its value.

pub mod c_library;
pub mod clock;
pub mod elf;
mod errno;
pub mod loaded;
pub mod own_stack;
pub mod pages;
pub mod prefetch;
pub mod raw;
pub mod signal;
pub mod threads;
pub mod wait;

pub use errno::KeepErrno;

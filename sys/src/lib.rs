//! What a guest in another program asks of Linux and of the loader.
//!
//! Everything here may run inside a hook: nothing allocates, panics or takes a lock of this crate's, and `errno` stays as
//! it was.

pub mod clock;
mod errno;
pub mod loaded;
pub mod prefetch;
pub mod signal;
pub mod wait;

pub use errno::KeepErrno;

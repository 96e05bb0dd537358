//! Queries of the driver: read-only, and only from within a call that the program itself made.

mod ask;
mod context;
mod device;
mod memory;
mod pool;

pub(crate) use context::*;
pub(crate) use device::*;
pub(crate) use memory::*;
pub(crate) use pool::*;

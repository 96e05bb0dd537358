//! The stacks of an event: captured, identified by one hash each, and defined in the capture when they first
//! occur.
//!
//! # Parts
//! - [`Interner::take`] captures the calling thread's stacks and returns their ids.
//! - [`DefinitionSink`]: where definitions go, the capture's writer or another sink.
//! - [`thread_static!`] and [`ThreadEnd`]: thread-local storage without a call, and callbacks at the end of a
//!   thread.
//!
//! # Design constraints
//! - A known stack costs a walk, a hash and one look-up: no lock, no allocation.
//! - An id is returned only once its definition is recorded, so every id in an event has a definition in the
//!   capture. If the definition cannot be recorded, the event has no stack, and the next event tries again.
//! - Two threads with the same new stack get the same id.
//! - Nothing is freed at exit.
//! - This crate does not depend on CUDA, events or the session that records them.
//!
//! # Not suitable for
//! Other threads' stacks, signal handlers.

mod codes;
mod hash;
mod id_table;
mod interner;
mod interpreter;
mod kinds;
mod modules;
mod nn_modules;
mod scratch;
mod segment;
mod sink;
#[cfg(test)]
mod tests;
mod tls;

pub use interner::Interner;
pub use kinds::Stacks;
pub use sink::DefinitionSink;
pub use tls::ThreadEnd;

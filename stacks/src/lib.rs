//! The stacks that an event carries: taken, told apart by one hash each, and defined in the capture
//! the first time that they are seen.
//!
//! # Parts
//! - [`Interner::take`] takes the calling thread's stacks and gives their numbers.
//! - [`DefinitionSink`]: where definitions go, the capture's writer or another one.
//! - [`thread_static!`] and [`ThreadEnd`]: storage of a thread that costs no call, and what is done at its end.
//!
//! # Design constraints
//! - A stack that has been seen costs a walk, a hash and one look-up: no lock, no allocation.
//! - An id is handed out only once its definition is recorded, so no event refers to what the capture
//!   does not have. If the definition cannot be recorded the event has no stack, and the next event
//!   tries again.
//! - Two threads that meet the same new stack get the same id.
//! - Nothing is torn down.
//! - Nothing is known here of CUDA, of events or of the session that records them.
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

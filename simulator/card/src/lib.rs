//! The simulated cards' memory, shared by all processes that see the same cards.
//!
//! All processes share a real card: memory that one of them takes is not available to the others.
//! Here a file records how much of each card each process has. Every process maps it; the simulated
//! driver takes and frees memory in it, and the simulated NVML reads it.
//!
//! # Design constraints
//! - A process may die at any moment, by SIGKILL and while it holds the lock, too. Its memory is
//!   free again: its row is ignored as soon as the process has ended or has called `exec`.
//! - Concurrent calls of `take` never take more bytes in total than the card has.
//! - A refused `take` changes nothing.
//!
//! # Not suitable for
//! Processes in different process-id namespaces: they cannot detect whether the others are alive.

mod file;
mod lock;
mod process;
mod table;

pub use table::{Cards, Holder, UNITS};

#[cfg(test)]
mod tests;

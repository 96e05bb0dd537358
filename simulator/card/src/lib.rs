//! The simulated cards' memory, shared by all processes that see the same cards.
//!
//! A real card is one for all processes: what one of them takes, no other can have. Here a file
//! says who has how much of which card. Every process maps it; the simulated driver takes and gives
//! back in it, the simulated NVML reads it.
//!
//! # Design constraints
//! - A process may die at any moment, by SIGKILL and while it holds the lock too. What it had is
//!   free again: its row is passed over as soon as the process is gone, or has called `exec`.
//! - No take, of however many processes at once, ends in more bytes than the card has.
//! - A refused take changes nothing.
//!
//! # Not suitable for
//! Processes of different process-id namespaces, which cannot tell whether the others live.

mod file;
mod lock;
mod process;
mod table;

pub use table::{Cards, Holder, UNITS};

#[cfg(test)]
mod tests;

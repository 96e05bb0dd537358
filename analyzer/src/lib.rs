//! From a `report.bin` to answers: replay, attribution, views and their renderings.
//!
//! # Design constraints
//! - Memory is bounded by the live blocks and the distinct stacks of a capture, not by its length.
//! - The same capture gives the same bytes.
//! - Damaged captures are normal input: what is missing is said ([`account::Account`]), and no number
//!   is made up.
//! - This crate knows neither CUDA's ABI nor the unwinder: everything comes from the capture.
//!
//! # Not suitable for
//! - Watching a run: it reads a capture once, to its present end. `analyzer/live` follows one.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod account;
pub mod envelope;
pub mod export;
#[cfg(feature = "databases")]
pub mod fleet;
pub mod import;
pub mod moment;
mod packed;
pub mod pickle;
pub mod ranks;
pub mod render;
pub mod session;
pub mod stacks;
pub mod symbols;
pub mod unanswered;
pub mod views;

pub use gpumem_replay as replay;
pub use gpumem_replay::{attribution, backward, names, node_classes, python, units};

//! From a `report.bin` to results: replay, attribution, views and their rendering.
//!
//! # Design constraints
//! - Memory is bounded by the live blocks and the distinct stacks of a capture, not by its length.
//! - The same capture gives the same bytes.
//! - Damaged captures are normal input: what is missing is reported ([`account::Account`]), and no figure is
//!   invented.
//! - This crate does not depend on CUDA's ABI or the unwinder: all data comes from the capture.
//!
//! # Not suitable for
//! - Following a running program: it reads a capture once, to its current end. `analyzer/live` follows one.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods))]
#![warn(missing_docs)]

pub mod account;
pub mod answers;
pub mod ask;
pub mod captures;
pub mod envelope;
pub mod export;
#[cfg(feature = "databases")]
pub mod fleet;
pub mod import;
pub mod moment;
mod packed;
pub mod pickle;
mod plausible;
pub mod ranks;
pub mod render;
pub mod session;
pub mod source;
pub mod stacks;
pub mod symbols;
pub mod unanswered;
pub mod views;
pub mod watch;

pub use gpumem_replay as replay;
pub use gpumem_replay::{attribution, backward, names, node_classes, python, units};

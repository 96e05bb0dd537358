//! A capture as rows of the dataset (`docs/dataset.md`).
//!
//! # Design constraints
//! - A capture is read once. It is read once more if an allocation failed, for what matters then is known once the failure
//!   is, and once more for its events.
//! - Each figure is the one that the views show.
//! - Rows do not grow with the capture's length: of a moment and level at most 2,000 are kept one by one.
//! - The same capture gives the same rows, as long as the same of its source files are there.

mod book;
mod cells;
mod events;
mod failures;
mod frames;
mod held;
mod identity;
mod ledger;
mod options;
mod rank;
mod run;
mod series;
mod taken;
#[cfg(test)]
mod tests;
mod version;
mod words;

pub use identity::{identity, identity_of};
pub use options::Options;
pub use taken::{Taken, rows, take};

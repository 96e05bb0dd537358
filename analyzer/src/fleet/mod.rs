//! A capture as rows of the dataset (`docs/dataset.md`), and what many captures' rows say of ranks that differ
//! (`outliers.rs`).
//!
//! # Design constraints
//! - A capture is read once. It is read again if an allocation failed, because only then is it known which figures
//!   are needed. It is read once more for its events.
//! - All figures are the same as in the views.
//! - The number of rows does not grow with the capture's length: for each point in time and level, at most 2,000 are
//!   kept.
//! - The same capture gives the same rows, if its source files are the same.

mod book;
mod cells;
mod events;
mod failures;
mod frames;
mod held;
mod ledger;
mod options;
mod outliers;
mod rank;
mod run;
mod series;
mod taken;
#[cfg(test)]
mod tests;
mod version;
mod words;

pub use options::Options;
pub use outliers::{FleetOutliers, Outlying};
pub use taken::{Taken, key, rows, take};

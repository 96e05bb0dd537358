//! Captures of two versions of a program compared, judged by limits and budgets, and kept over commits.

mod align;
mod judge;
mod parts;
mod rules;
mod workload;

pub use judge::{Comparison, Finding, Judged, Outcome};
pub use parts::PartChange;
pub use rules::{Allowance, Budget, Day, Growth, Rules};
pub use workload::{DevicePeaks, Quality, Workload};

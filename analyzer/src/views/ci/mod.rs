//! Compares captures of two versions of a program, checks limits and budgets, and keeps peaks over commits.

mod align;
mod history;
mod judge;
mod parts;
mod rules;
mod workload;

pub use history::{PastPeak, Series, Trend, TrendCommit, past_peaks};
pub use judge::{Comparison, Finding, Judged, Outcome};
pub use parts::PartChange;
pub use rules::{Allowance, Budget, Day, Growth, Rules};
pub use workload::{DevicePeaks, Quality, Workload};

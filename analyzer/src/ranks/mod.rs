//! The captures of one job's ranks: whether all are there, and which ranks differ from their peers, by what and since when.
//!
//! Each capture is read once and leaves [`Figures`] of a few kilobytes; [`Job::of`] compares them. A rank is compared with its
//! peers: the ranks at the same place in the model, for stages of a pipeline hold different layers by design.

mod coordinates;
mod differences;
mod endings;
mod figures;
mod found;
mod holders;
mod job;
mod outliers;
mod peers;
mod robust;
mod steps;

pub use coordinates::{Coordinates, Mesh};
pub use differences::Difference;
pub use endings::{End, Ended, Endings};
pub(crate) use figures::POOL;
pub use figures::{Figures, RankRow};
pub use found::{Found, find};
pub use holders::{Held, Keys, Of};
pub use job::{Job, Mixed, PeerGroup, Spare};
pub use outliers::{Metric, Outlier};
pub use robust::{RULE, Spread};
pub use steps::{Since, StepWatch, Steps};

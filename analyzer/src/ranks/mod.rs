//! The captures of one job's ranks: which are missing, and which ranks differ from their peers, by what and since
//! when.
//!
//! Each capture is read once and reduced to [`Figures`] of a few kilobytes; [`Job::of`] compares them. If the step
//! since which a rank differs is not known, the captures of the rank and of some peers are read again:
//! [`Job::questions`]. The peers of a rank are the ranks with the same part of the model, because stages of a
//! pipeline hold different layers by design.

mod clocks;
mod coordinates;
mod course;
mod differences;
mod differing;
mod endings;
mod exact;
mod facts;
mod figures;
mod heatmap;
mod holders;
mod job;
mod nccl;
mod open;
mod outliers;
mod peers;
mod robust;
#[cfg(test)]
mod samples;
mod step_ends;
mod steps;
mod watch;

pub use clocks::Clock;
pub use coordinates::{Coordinates, Mesh};
pub use course::{Buckets, Course, CourseWatch, Part, Parts};
pub use differences::Difference;
pub use differing::{Differs, Metric, differing};
pub use endings::{End, Ended, Endings};
pub use exact::Question;
pub use figures::{Figures, RankRow};
pub use heatmap::{HeatRow, Heatmap};
pub use holders::{Held, Keys, Of, Place};
pub use job::{Job, Mixed, PeerGroup, Spare, Unranked};
pub use outliers::Outlier;
pub use robust::{RULE, Spread};
pub use step_ends::StepEnds;
pub use steps::{Since, StepWatch, Steps, Window};
pub use watch::{Drawn, DrawnWatch};

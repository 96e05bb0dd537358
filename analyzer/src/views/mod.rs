//! What is worked out from a session, before it becomes text, JSON or a picture.

mod lines;
mod summary;

pub use lines::{LineRow, Lines};
pub use summary::{DeviceSummary, LevelSummary, PhysicalSummary, ReservedSummary, Summary};

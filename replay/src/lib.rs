//! Replays a capture's records in one pass: what was live, and what was live at the peaks.
//!
//! # Design constraints
//! - Memory is bounded by the live blocks and the distinct pairs of stacks, not by the capture's length.
//! - The same records give the same state.
//! - Inconsistent records are counted ([`Anomalies`]) and excluded.
//! - This crate reads no file, and formats only numbers and labels. The analyzer feeds it the records of a capture, and
//!   turns its state into output.
//!
//! # Not suitable for
//! - Reporting what a capture lacks: the analyzer's account does that.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod attribution;
mod backing;
pub mod backward;
mod block;
mod bounded;
mod categories;
mod categorize;
mod category;
mod counters_at;
pub mod demangle;
mod device;
mod eviction;
mod failures;
mod figures;
#[doc(hidden)]
pub mod fuzzing;
mod high_water;
mod ids;
mod key_ids;
mod later_growth;
mod level_state;
mod limits;
mod main_failure;
pub mod names;
mod node;
pub mod node_classes;
mod objects;
mod peak_snapshot;
pub mod peaks_since;
mod places;
mod purpose;
pub mod python;
mod query;
mod readings;
mod replay;
mod reservation;
mod restored;
mod sampling;
mod serialize;
mod span_context;
mod spans;
mod state;
mod survey;
pub mod units;
mod window;

pub use backing::Backing;
pub use block::Block;
pub use bounded::BoundedReplay;
pub use category::Category;
pub use device::{DevicePeak, Levels};
pub use failures::{Failures, OutOfMemory};
pub use figures::Scale;
pub use high_water::{Figure, Total};
pub use ids::{Caller, KeyId, NodeId, StackKey};
pub use later_growth::{Growth, LaterGrowth};
pub use level_state::{Anomalies, Effect, LevelState};
pub use objects::{Load, Mapping, Objects};
pub use purpose::{Purpose, ThreadPhase};
pub use query::{At, Query, Sizes};
pub use readings::{Card, Jump, Reading, Readings};
pub use replay::Replay;
pub use reservation::{Reservation, ReservationKind};
pub use restored::{Evicted, Restored};
pub use sampling::{Sampling, share_out};
pub use span_context::SpanContext;
pub use spans::Spans;

#[cfg(test)]
mod tests;

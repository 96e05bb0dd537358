//! One pass over a capture's records: who held what, when it was most.
//!
//! # Design constraints
//! - Memory is bounded by the live blocks and the distinct pairs of stacks, not by the capture's length.
//! - The same records give the same state.
//! - What does not fit is counted ([`Anomalies`]), and no number is made up.
//! - This crate reads no file, and renders nothing but single numbers and labels: the analyzer feeds it what a capture holds, and turns
//!   its state into answers.
//!
//! # Not suitable for
//! - Saying what is missing of a capture: that is the analyzer's account of it.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod attribution;
pub mod backward;
mod block;
mod bounded;
mod circumstance;
pub mod classes;
mod coded;
mod course;
mod device;
mod holding;
mod ids;
mod letting_go;
pub mod maxima;
pub mod names;
mod node;
pub mod numbers;
mod objects;
pub mod python;
mod query;
mod readings;
mod replay;
mod restored;
mod row;
mod state;
mod tallied;
mod tally;
mod then;

pub use block::Block;
pub use bounded::Kept;
pub use circumstance::Circumstance;
pub use course::{Course, Stage, Work};
pub use device::{DevicePeak, Levels};
pub use holding::{Holding, HoldingKind};
pub use ids::{Caller, KeyId, NodeId, StackKey};
pub use objects::{Load, Mapping, Objects};
pub use query::{Moment, Sizes, Wanted};
pub use readings::{Card, Jump, Reading, Readings};
pub use replay::{OutOfMemory, Replay};
pub use restored::{LetGo, Restored};
pub use row::{Anomalies, Effect, Row};

pub use tally::{Figure, Total};

#[cfg(test)]
mod tests;

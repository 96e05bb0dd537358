//! A capture that is watched while its program runs: figures as of now, and a view of them in a terminal.
//!
//! # Design constraints
//! - Nothing is written, and nothing is asked of the program: all comes from its capture.
//! - A frame's figures are those that `summary` and `lines` tell of the same event, to the byte.
//! - Memory is bounded as a replay's is; the course of memory has a fixed number of points.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod ask;
mod desk;
mod follower;
mod frame;
mod growth;
pub mod view;
mod watch;

pub use ask::{Ask, By, Moment};
pub use frame::{DeviceNow, Failure, Frame, Process, Rows, State, Table};
pub use growth::StepGrowth;
pub use watch::Watch;

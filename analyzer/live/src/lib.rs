//! Follows a capture while its program runs: current figures, and a view of them in a terminal.
//!
//! # Design constraints
//! - Everything is read from the capture. Nothing is written, and no request goes to the program.
//! - A frame's figures equal those of `summary` and `lines` at the same event, to the byte.
//! - Memory is bounded like a replay's; memory over time has a fixed number of points.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods))]
#![warn(missing_docs)]

mod ask;
mod baseline;
mod desk;
mod folder;
mod folder_rank;
mod follower;
mod frame;
mod growth;
mod moment_reader;
mod order;
mod pace;
mod page;
mod past;
mod place;
mod process;
mod request;
mod steps;
pub mod view;
mod watch;
mod which;

pub use ask::{Ask, By, Moment, Order, Then};
pub use folder::{Differs, Folder, FolderRow};
pub use folder_rank::RankNow;
pub use frame::{DeviceNow, Failure, Frame, LevelPeak, Rows, State, Table};
pub use growth::LiveGrowth;
pub use order::Measure;
pub use pace::Pace;
pub use page::{Kind, Page};
pub use past::Past;
pub use process::Process;
pub use request::{Answer, Given, Request, Want};
pub use watch::Watch;
pub use which::{Of, Which};

//! A capture that is watched while its program runs: figures as of now, and a view of them in a terminal.
//!
//! # Design constraints
//! - Nothing is written, and nothing is asked of the program: all comes from its capture.
//! - A frame's figures are those that `summary` and `lines` tell of the same event, to the byte.
//! - Memory is bounded as a replay's is; the course of memory has a fixed number of points.
#![forbid(unsafe_code)]
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
pub use growth::StepGrowth;
pub use order::Measure;
pub use pace::Pace;
pub use page::{Kind, Page};
pub use past::Past;
pub use process::Process;
pub use request::{Answer, Given, Request, Want};
pub use watch::Watch;
pub use which::{Of, Which};

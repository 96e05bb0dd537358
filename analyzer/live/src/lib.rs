//! Running captures: read once, and shown in a terminal, in a browser, and as metrics.
//!
//! - [`frames`] follows captures and makes frames of their figures. It knows none of the three below.
//! - [`terminal`] shows frames in a terminal, [`serve`] in a browser, [`metrics`] to Prometheus and OTLP. They compute no
//!   figures and do not know one another.
//!
//! Start reading in `frames/watch.rs`.
//!
//! # Design constraints
//! - Everything is read from captures. Nothing is written to them, no request goes to the programs, and neither CUDA nor
//!   NVML is loaded.
//! - A frame's figures equal those of `report --all` and `lines` at the same event, to the byte.
//! - Memory is bounded like a replay's; memory over time has a fixed number of points.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods))]
#![warn(missing_docs)]

pub mod frames;
#[cfg(feature = "metrics")]
pub mod metrics;
pub mod serve;
pub mod terminal;

pub use gpumem_http::StartError;

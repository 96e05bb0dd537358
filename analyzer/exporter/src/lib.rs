//! Captures as metrics for Prometheus, OpenMetrics and OTLP.
//!
//! # Design constraints
//! - Neither CUDA nor NVML is loaded: all figures are those of captures. So the exporter has no context on any card.
//! - Series are bounded: by the number of captures, by lines of each, and in time after a program has ended.
//! - Nothing is written, and nothing is asked of the programs.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod captures;
mod family;
mod find;
mod metrics;
mod otlp;
mod place;
mod serve;
mod text;

pub use find::BadPattern;
pub use gpumem_http::StartError;
pub use otlp::PushError;
pub use serve::{Error, Exporter, Options};

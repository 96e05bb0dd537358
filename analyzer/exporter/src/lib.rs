//! Exports captures as metrics for Prometheus, OpenMetrics and OTLP.
//!
//! # Design constraints
//! - CUDA and NVML are not loaded: all figures come from captures. So the exporter has no context on any card.
//! - The number of series is bounded: by the captures, by the lines of each, and in time after a program ended.
//! - Nothing is written, and no request goes to the programs.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods))]
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

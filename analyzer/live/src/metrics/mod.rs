//! Frames as metrics for Prometheus, OpenMetrics and OTLP. The names are in `families`, and nowhere else.
//!
//! The number of series is bounded: by the captures, by the lines of each, and in time after a program ended.

mod families;
mod otlp;
mod server;
mod text;

pub use otlp::PushError;
pub use server::{Error, Exporter, Options, once};

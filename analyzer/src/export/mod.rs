//! A capture in the formats of other programs, one file for each.
//!
//! There are three kinds of formats. Folded, speedscope, pprof and firefox have figures of stacks at a
//! few points in time; they are made from [`Samples`]. Perfetto has figures over time. Arrow, csv and PyTorch's
//! memory snapshot have one row for each event. Rows are written immediately, so memory does not grow with the
//! capture. The module also writes and reads the history of peaks over commits.

#[cfg(feature = "databases")]
mod arrow;
mod blocks;
mod csv;
mod events;
#[cfg(feature = "databases")]
mod facts;
pub mod firefox;
mod folded;
mod kinds;
mod leaked;
#[cfg(feature = "databases")]
mod parquet;
#[cfg(feature = "databases")]
mod past_peaks;
pub mod perfetto;
pub mod pprof;
mod samples;
mod series;
pub mod speedscope;
#[cfg(feature = "databases")]
mod sqlite;
mod torch_frames;
mod torch_segments;
mod torch_snapshot;

#[cfg(feature = "databases")]
pub use arrow::Arrow;
pub use blocks::{Blocks, LiveBlock};
pub use csv::Csv;
pub use events::{EventRow, Events, Filter, Numbers};
pub use folded::folded;
pub use leaked::Steps;
#[cfg(feature = "databases")]
pub use parquet::Parquet;
#[cfg(feature = "databases")]
pub use past_peaks::{past_peaks_parquet, read_past_peaks};
pub use samples::{Location, SampleRow, Samples};
pub use series::{Point, Series};
#[cfg(feature = "databases")]
pub use sqlite::Sqlite;
pub use torch_snapshot::{TorchSnapshot, torch_snapshot};

//! The dataset that many captures are put into: Parquet files that DuckDB, Spark and others read.
//!
//! Layout, columns and rules: `docs/dataset.md`. This crate knows rows and files, no captures: `gpumem-analyze fleet ingest`
//! makes [`CaptureRows`] of each capture.

mod docs;
mod keys;
mod mac;
mod rows;
mod table;

pub use docs::markdown;
pub use keys::{Key, Keyed};
pub use mac::Mac;
pub use rows::{
    CaptureRows, Event, Failure, Frame, Held, Label, LedgerEntry, Line, Rank, SCHEMA, SeriesPoint,
    Step,
};
pub use table::{Cell, Column, Kind, Table, TableInfo};

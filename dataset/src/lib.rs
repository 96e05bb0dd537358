//! The dataset into which captures are ingested: Parquet files that DuckDB, Spark and others read.
//!
//! Layout, columns and rules: `docs/dataset.md`. This crate handles rows and files, not captures: `gpumem-analyze fleet
//! ingest` makes [`CaptureRows`] of each capture.

mod dataset;
mod docs;
mod encode;
mod gather;
mod keys;
mod layout;
mod list;
mod mac;
mod part;
mod rows;
mod staged;
mod store;
mod table;

pub use dataset::Dataset;
pub use docs::markdown;
pub use encode::{Encoder, GROUP, encode};
pub use gather::Gatherer;
pub use keys::{Key, Keyed};
pub use layout::{DataFile, RANKS, name_of, parse_staged, staged_path};
pub use list::Part;
pub use mac::Mac;
pub use part::{Entry, Gathered, Made, Source};
pub use rows::{
    CaptureRows, Event, Failure, Frame, Held, Label, LedgerEntry, Line, Rank, SCHEMA, SeriesPoint,
    Step, TABLES,
};
pub use staged::{Capture, Spool, SpoolWriter};
pub use store::{Created, Found, Patience, Store, StoreError};
pub use store::{host, is_alive};
pub use table::{Cell, Column, Kind, Table, TableInfo};

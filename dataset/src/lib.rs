//! The dataset into which captures are ingested: a folder of Parquet files that DuckDB, Spark and others read.
//!
//! Layout, columns and rules: `docs/dataset.md`. This crate handles rows and files, not captures: `gpumem-analyze fleet
//! ingest` makes [`CaptureRows`] of each capture. It knows no network. Start reading in `dataset.rs`.

#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod dataset;
mod docs;
mod encode;
mod folder;
mod gather;
mod keys;
mod layout;
mod part;
mod read;
mod rows;
mod spool;
mod table;

pub use dataset::{Dataset, Part};
pub use docs::markdown;
pub use encode::{Encoder, GROUP, encode};
pub use folder::Error;
pub use gather::Gatherer;
pub use keys::{Hash, Key, Keyed};
pub use layout::{DataFile, PartName, RANKS, name_of};
pub use part::{Gathered, Made};
pub use read::{each_row, parquet_files};
pub use rows::{
    CaptureRows, Event, Failure, Frame, Held, Label, LedgerEntry, Line, Rank, SCHEMA, SeriesPoint,
    Step, TABLES,
};
pub use spool::{Capture, Spool, SpoolWriter};
pub use table::{Cell, Column, Kind, Table, TableInfo};

//! A frame's table as JSON.

use crate::frames::{By, Moment, Rows, Table, Which};
use crate::frames::{Row, rows};
use serde::Serialize;

use super::view::View;

/// The most rows that are sent. The totals count all rows.
const ROWS: usize = 200;

#[derive(Serialize)]
pub(super) struct Shown {
    seq: u64,
    by: &'static str,
    moment: &'static str,
    level: &'static str,
    device: Option<u8>,
    /// The level's own figure.
    total: u64,
    /// The number of rows that the filter matches, and their sum.
    found: usize,
    found_bytes: u64,
    found_blocks: u64,
    rows: Vec<Line>,
}

#[derive(Serialize)]
struct Line {
    /// Identifies the row in a request.
    key: String,
    device: Option<u8>,
    bytes: u64,
    blocks: u64,
    share: String,
    name: String,
    of: String,
    more: String,
}

impl Shown {
    pub(super) fn of(table: &Table, view: &View) -> Self {
        let found = rows(table, &view.filter, view.sort);
        Self {
            seq: table.seq.0,
            by: match view.ask.by {
                By::Line => "line",
                By::Category => "category",
                By::Module => "module",
            },
            moment: match view.ask.moment {
                Moment::Now => "now",
                Moment::Peak => "peak",
            },
            level: table.level.name(),
            device: view.ask.device.map(|device| device.0),
            total: table.total,
            found: found.len(),
            found_bytes: found.iter().map(|row| row.bytes).sum(),
            found_blocks: found.iter().map(|row| row.blocks).sum(),
            rows: found.into_iter().take(ROWS).map(Line::from).collect(),
        }
    }
}

impl From<Row> for Line {
    fn from(row: Row) -> Self {
        Self {
            key: key::of(&row.which),
            device: row.device,
            bytes: row.bytes,
            blocks: row.blocks,
            share: row.share,
            name: row.name,
            of: row.of,
            more: row.more,
        }
    }
}

/// The row of a table with this key.
pub(super) fn which(table: &Table, key: &str) -> Option<Which> {
    let all: Vec<Which> = match &table.rows {
        Rows::Lines(lines) => lines.rows.iter().map(Which::from).collect(),
        Rows::Categories(rows) => rows.iter().map(Which::from).collect(),
        Rows::Modules(modules) => modules.iter().map(Which::from).collect(),
    };
    all.into_iter().find(|which| key::of(which) == key)
}

/// Identifiers of rows in requests: digits, so that no request contains a path.
pub(super) mod key {
    use std::hash::{DefaultHasher, Hash as _, Hasher as _};

    use crate::frames::Which;

    /// The number of characters of a key.
    pub(crate) const LENGTH: usize = 16;

    /// A row's key. It is valid as long as the server runs.
    pub(crate) fn of(which: &Which) -> String {
        let mut hasher = DefaultHasher::new();
        format!("{which:?}").hash(&mut hasher);
        format!("{:016x}", hasher.finish())
    }
}

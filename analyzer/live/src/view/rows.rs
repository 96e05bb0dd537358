//! The table's rows as text.

use std::cmp::Reverse;

use gpumem_analyzer::render::share;
use gpumem_analyzer::views::{CategoryRow, LineRow, ModuleRow};

use crate::frame::{Rows, Table};

/// The order of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    /// The most bytes first.
    #[default]
    Bytes,
    /// The most blocks first.
    Blocks,
    /// By name.
    Name,
}

impl Sort {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Bytes => "bytes",
            Self::Blocks => "blocks",
            Self::Name => "name",
        }
    }
}

/// A row as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its device; `None`: of no device.
    pub device: Option<u8>,
    /// Bytes.
    pub bytes: u64,
    /// Blocks.
    pub blocks: u64,
    /// Of all rows, in percent.
    pub share: u64,
    /// File and line, category, or module.
    pub name: String,
    /// Function, or class.
    pub of: String,
    /// What tensors are for, and when they were made.
    pub more: String,
}

/// All rows whose text contains `filter`, in this order.
pub fn rows(table: &Table, filter: &str, sort: Sort) -> Vec<Row> {
    let mut all = of(&table.rows);
    let bytes: Vec<_> = all.iter().map(|row| row.bytes).collect();
    for (row, share) in all.iter_mut().zip(share(&bytes)) {
        row.share = share;
    }
    let filter = filter.to_lowercase();
    all.retain(|row| {
        let has = |text: &str| text.to_lowercase().contains(&filter);
        filter.is_empty() || has(&row.name) || has(&row.of) || has(&row.more)
    });
    match sort {
        Sort::Bytes => all.sort_by_key(|row| Reverse(row.bytes)),
        Sort::Blocks => all.sort_by_key(|row| Reverse((row.blocks, row.bytes))),
        Sort::Name => all.sort_by(|a, b| (&a.name, a.device).cmp(&(&b.name, b.device))),
    }
    all
}

fn of(rows: &Rows) -> Vec<Row> {
    match rows {
        Rows::Lines(lines) => {
            let rows = lines.rows.iter();
            let text = |row: &LineRow| Row {
                device: row.device,
                bytes: row.bytes,
                blocks: row.blocks,
                share: 0,
                name: match (&row.file, row.line) {
                    (Some(file), Some(line)) => format!("{file}:{line}"),
                    (Some(file), None) => file.clone(),
                    _ => row.library.clone().unwrap_or_else(|| "(no line)".into()),
                },
                of: row.function.clone().unwrap_or_default(),
                more: {
                    let phase = row.phase.map(|phase| phase.word().to_owned());
                    let node = row.node.as_ref().map(|node| format!("backward: {node}"));
                    let workspace = row.workspace.then(|| "cuBLAS workspace".to_owned());
                    let category = Some(row.category()).filter(|category| !category.is_empty());
                    let parts = [phase, category, node, workspace];
                    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
                },
            };
            rows.map(text).collect()
        }
        Rows::Categories(rows) => {
            let text = |row: &CategoryRow| Row {
                device: row.device,
                bytes: row.bytes,
                blocks: row.blocks,
                share: 0,
                name: row.category.name().to_owned(),
                of: String::new(),
                more: String::new(),
            };
            rows.iter().map(text).collect()
        }
        Rows::Modules(modules) => {
            let text = |row: &ModuleRow| Row {
                device: row.device,
                bytes: row.bytes,
                blocks: row.blocks,
                share: 0,
                name: match &row.module {
                    Some(module) => module.clone(),
                    None => "(outside all modules)".into(),
                },
                of: row.class.clone().unwrap_or_default(),
                more: match row.workspace {
                    true => "cuBLAS workspace".into(),
                    false => String::new(),
                },
            };
            modules.rows.iter().map(text).collect()
        }
    }
}

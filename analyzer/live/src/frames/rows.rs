//! The table's rows as text.

use std::cmp::Reverse;

use gpumem_analyzer::names::NO_MODULE;
use gpumem_analyzer::render::percent;
use gpumem_analyzer::views::{CategoryRow, LineRow, ModuleRow};

use super::ask::Order;
use super::frame::{Rows, Table};
use super::which::Which;

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
    /// By a figure that is computed for this order.
    Measure(Order),
}

impl Sort {
    pub(crate) fn next(self) -> Self {
        match self {
            Self::Bytes => Self::Measure(Order::Peak),
            Self::Measure(Order::Peak) => Self::Measure(Order::Growth),
            Self::Measure(Order::Growth) => Self::Measure(Order::Rate),
            Self::Measure(_) => Self::Blocks,
            Self::Blocks => Self::Name,
            Self::Name => Self::Bytes,
        }
    }

    /// The figure that it needs.
    pub(crate) fn order(self) -> Order {
        match self {
            Self::Measure(order) => order,
            _ => Order::Bytes,
        }
    }

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Bytes => "bytes",
            Self::Blocks => "blocks",
            Self::Name => "name",
            Self::Measure(Order::Peak) => "bytes at the peak",
            Self::Measure(Order::Growth) => "growth per step",
            Self::Measure(Order::Rate) => "allocations per second",
            Self::Measure(Order::Bytes) => "bytes",
        }
    }
}

/// A row in the view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// What it stands for.
    pub which: Which,
    /// Its device; `None` for memory of no device.
    pub device: Option<u8>,
    /// Bytes.
    pub bytes: u64,
    /// Blocks.
    pub blocks: u64,
    /// The figure of the order, if it is another one than the above.
    pub measure: Option<i64>,
    /// Its share of all rows: `31 %`.
    pub share: String,
    /// File and line, category, or module.
    pub name: String,
    /// Function or class.
    pub of: String,
    /// The category of tensors, and when they were allocated.
    pub more: String,
}

/// All rows whose text contains `filter`, in this order.
pub fn rows(table: &Table, filter: &str, sort: Sort) -> Vec<Row> {
    let mut all = of(&table.rows);
    let whole = all.iter().map(|row| row.bytes).sum();
    for row in &mut all {
        row.share = percent(row.bytes, whole);
    }
    // The order may be newer than the table.
    let measure = table.measure.as_ref();
    if let Some(measure) = measure.filter(|of| of.order == sort.order()) {
        for row in &mut all {
            row.measure = Some(measure.by.get(&row.which).copied().unwrap_or(0));
        }
    }
    let filter = filter.to_lowercase();
    all.retain(|row| {
        let has = |text: &str| text.to_lowercase().contains(&filter);
        filter.is_empty() || has(&row.name) || has(&row.of) || has(&row.more)
    });
    match sort {
        Sort::Bytes => all.sort_by_key(|row| Reverse(row.bytes)),
        Sort::Measure(_) => all.sort_by_key(|row| Reverse((row.measure, row.bytes))),
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
                which: row.into(),
                device: row.device,
                bytes: row.bytes,
                blocks: row.blocks,
                measure: None,
                share: String::new(),
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
                which: row.into(),
                device: row.device,
                bytes: row.bytes,
                blocks: row.blocks,
                measure: None,
                share: String::new(),
                name: row.category.name().to_owned(),
                of: String::new(),
                more: String::new(),
            };
            rows.iter().map(text).collect()
        }
        Rows::Modules(modules) => {
            let text = |row: &ModuleRow| Row {
                which: row.into(),
                device: row.device,
                bytes: row.bytes,
                blocks: row.blocks,
                measure: None,
                share: String::new(),
                name: row.module.as_deref().unwrap_or(NO_MODULE).into(),
                of: row.class.clone().unwrap_or_default(),
                more: match row.workspace {
                    true => "cuBLAS workspace".into(),
                    false => String::new(),
                },
            };
            modules.iter().map(text).collect()
        }
    }
}

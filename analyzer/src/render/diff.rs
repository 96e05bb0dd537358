//! The table of differences between two captures.

use std::cmp::Reverse;

use super::{Align, Style, Table, Terminal, bytes, count, signed};
use crate::account::{Phase, many};
use crate::views::{Diff, DiffRow, HolderRow, HoldersDiff, KeptAt, PoolDiff, holder_name};

/// Columns of text, and those before a side's text.
const COLUMNS: usize = 80;
const LABEL: usize = 9;

/// The answer: how much more or less it is, and which line has the largest change.
pub fn diff_answer(diff: &Diff, level: &str) -> String {
    let total = match diff.change_bytes {
        0 => format!("none, {} in both ({level} level)", bytes(diff.after_bytes)),
        by => format!(
            "{}, {} → {} ({level} level)",
            change(by),
            bytes(diff.before_bytes),
            bytes(diff.after_bytes)
        ),
    };
    // Of all phases and GPUs. Of equal ones the first, which has the row with the largest change.
    let mut lines: Vec<(&str, i64)> = Vec::new();
    for row in &diff.rows {
        match lines.iter_mut().find(|(owner, _)| *owner == row.of.owner) {
            Some((_, sum)) => *sum = sum.saturating_add(row.change_bytes),
            None => lines.push((&row.of.owner, row.change_bytes)),
        }
    }
    lines.sort_by_key(|(_, by)| Reverse(by.unsigned_abs()));
    let largest = match lines.first().filter(|(_, by)| *by != 0) {
        Some((owner, by)) => format!("largest: {owner}, {}", change(*by)),
        None => "all lines have the same bytes".into(),
    };
    let length = LABEL + total.chars().count() + 2 + largest.chars().count();
    let between = match length <= COLUMNS {
        true => "; ".into(),
        false => format!("\n{}", " ".repeat(LABEL)),
    };
    format!("{:<LABEL$}{total}{between}{largest}\n", "change")
}

/// The table: line, phase if any row has one, function, bytes in both, the change, blocks in both. `title` is its
/// heading. Similar rows are merged.
pub fn diff_text(diff: &Diff, title: &str, devices: bool, terminal: Terminal) -> String {
    let phases = diff.rows.iter().any(|row| row.of.phase.is_some());
    let first = if phases { 2 } else { 1 };
    let mut columns = vec![Align::Left; first + 1];
    columns.extend([Align::Right; 4]);
    columns.push(Align::Left);
    let mut table = Table::new(&columns).elastic(&[first, 0]).shed(&[first]);
    let mut heads = vec![""; first + 1];
    heads[0] = title;
    let device = if devices { "device" } else { "" };
    heads.extend(["before", "after", "change", "blocks", device]);
    table.cells(&heads).style_row(Style::Strong).span(first + 1);
    let is_alike = |row: &&DiffRow| {
        row.change_bytes == 0 && row.before_blocks == row.after_blocks && row.before_bytes > 0
    };
    for row in diff.rows.iter().filter(|row| !is_alike(row)) {
        let label = format!("  {}", row.of.owner);
        let mut cells = vec![label.as_str()];
        if phases {
            cells.push(row.of.phase.map_or("", Phase::word));
        }
        let device = match row.of.device {
            _ if !devices => String::new(),
            Some(ordinal) => format!("GPU {ordinal}"),
            None => "none".into(),
        };
        let (before, after) = (bytes(row.before_bytes), bytes(row.after_bytes));
        let change = change(row.change_bytes);
        let blocks = match (row.before_blocks, row.after_blocks) {
            (before, after) if before == after => count(before),
            (before, after) => format!("{} → {}", count(before), count(after)),
        };
        let function = row.of.function.as_deref().unwrap_or_default();
        cells.extend([function, &before, &after, &change, &blocks, &device]);
        table.cells(&cells);
        let note = row.of.owner.find(" (").unwrap_or(row.of.owner.len());
        table.style(first, Style::Faint);
        table.place(0, row.of.owner.len() - note);
    }
    let alike: Vec<&DiffRow> = diff.rows.iter().filter(is_alike).collect();
    if !alike.is_empty() {
        let same = alike.iter().map(|row| row.before_bytes).sum();
        let label = format!("  {} alike", many(alike.len() as u64, "line", "lines"));
        row(&mut table, first, &label, (same, same), 0);
    }
    let sums = (diff.before_bytes, diff.after_bytes);
    row(&mut table, first, "Together", sums, diff.change_bytes);
    table.style_row(Style::Strong);
    table.render(terminal, 0)
}

/// PyTorch's pools in both; empty if they are equal.
pub fn pools_text(pools: &[PoolDiff], terminal: Terminal) -> String {
    let mut out = String::new();
    for pool in pools {
        let rows = [
            ("  peak of reserved memory, whole run", pool.reserved_peak),
            ("  unallocated at the tensors' peak", pool.unused_at_peak),
        ];
        if rows.iter().all(|(_, figure)| figure.change_bytes == 0) {
            continue;
        }
        let right = Align::Right;
        let mut table = Table::new(&[Align::Left, right, right, right]);
        let title = format!("PyTorch's pool on GPU {}", pool.device);
        table
            .row([&title, "before", "after", "change"])
            .style_row(Style::Strong);
        for (label, figure) in rows {
            let (before, after) = (bytes(figure.before_bytes), bytes(figure.after_bytes));
            table.row([label, &before, &after, &change(figure.change_bytes)]);
        }
        out.push_str(&table.render(terminal, 0));
        out.push('\n');
    }
    out
}

/// The maximum number of holders.
const HOLDERS: usize = 12;

/// The objects that keep more or less in the second capture, the largest growth first; empty if they are equal.
pub fn holders_diff_text(all: &[HoldersDiff], terminal: Terminal) -> String {
    let mut out = String::new();
    for of in all {
        let changed = of.rows.iter().filter(|row| row.change_bytes != 0);
        let mut changed: Vec<&HolderRow> = changed.collect();
        if changed.is_empty() {
            continue;
        }
        // Those that grew come first; if there are too many, the smallest changes are left out.
        let mut sizes: Vec<u64> = changed
            .iter()
            .map(|row| row.change_bytes.unsigned_abs())
            .collect();
        sizes.sort_unstable_by_key(|size| std::cmp::Reverse(*size));
        let least = sizes.get(HOLDERS - 1).copied().unwrap_or(0);
        let count_of_all = changed.len();
        changed.retain(|row| row.change_bytes.unsigned_abs() >= least);
        changed.truncate(HOLDERS);
        let (left, right) = (Align::Left, Align::Right);
        let mut table = Table::new(&[left, left, right, right, right, right])
            .elastic(&[1, 0])
            .shed(&[1]);
        let at = |at: KeptAt| match at {
            KeptAt::Failure => "the failure",
            KeptAt::Peak => "the peak",
        };
        let when = match (at(of.before_at), at(of.after_at)) {
            (before, after) if before == after => format!("at {before}"),
            (before, after) => format!("before: at {before}, after: at {after}"),
        };
        let title = format!("Who keeps the tensors of GPU {}, {when}", of.device);
        table
            .cells(&[&title, "", "before", "after", "change", "blocks"])
            .style_row(Style::Strong)
            .span(2);
        let rest = count_of_all - changed.len();
        for row in changed {
            let (before, after) = (bytes(row.before_bytes), bytes(row.after_bytes));
            let blocks = format!("{} → {}", count(row.before_blocks), count(row.after_blocks));
            table.row([
                &format!("  {}", holder_name(row.kind, &row.text)),
                &row.place,
                &before,
                &after,
                &change(row.change_bytes),
                &blocks,
            ]);
            table.style(1, Style::Faint);
        }
        if rest > 0 {
            let label = format!(
                "  {} with smaller changes",
                many(rest as u64, "object", "objects")
            );
            table.row([&label, "", "", "", "", ""]);
        }
        out.push_str(&table.render(terminal, 0));
        out.push('\n');
    }
    out
}

/// A row of sums.
fn row(table: &mut Table, first: usize, label: &str, (before, after): (u64, u64), by: i64) {
    let (before, after) = (bytes(before), bytes(after));
    let change = change(by);
    let mut cells = vec![""; first + 1];
    cells[0] = label;
    cells.extend([&before, &after, &change, "", ""]);
    table.cells(&cells);
}

/// A change with its sign; `0 B` has none.
fn change(bytes: i64) -> String {
    let sign = if bytes > 0 { "+" } else { "" };
    format!("{sign}{}", signed(bytes))
}

//! Temporary blocks by line, as text.

use super::line_table::LineTable;
use super::{Source, Terminal, bytes, count, percent};
use crate::account::many;
use crate::replay::Replay;
use crate::views::{Temporary, TemporaryRow, Within};

/// The lines and their totals. `part`: the requested part, after a comma.
pub fn temporary_text(
    replay: &Replay,
    found: &Temporary,
    within: Within,
    part: &str,
    source: &mut Source,
    terminal: Terminal,
) -> String {
    let level = found.level;
    let said = match within {
        Within::Events(1) => "freed by the next event".into(),
        Within::Events(events) => format!("freed within {}", many(events, "event", "events")),
        Within::Time(time) => format!("freed within {} ms", time.0 as f64 / 1e6),
    };
    let whole = format!(
        "{} of the {level} level with {}",
        many(found.all_blocks, "allocation", "allocations"),
        bytes(found.all_bytes)
    );
    if found.rows.is_empty() {
        return format!("No block was {said}{part}: of {whole}.\n");
    }
    let title = format!("Temporary blocks, {said}{part}");
    let mut table = LineTable::new(
        &title,
        ["bytes", "blocks", "of all", "largest", "in the peak"],
        found.rows.iter().map(|row| row.device),
        &replay.names,
        source,
    );
    for row in &found.rows {
        row_of(&mut table, row);
    }
    let mut out = table.render(terminal);
    let blocks = many(found.blocks, "block", "blocks");
    out.push_str(&format!(
        "Together {} in {blocks}, of {whole}.\n",
        bytes(found.bytes)
    ));
    out
}

fn row_of(table: &mut LineTable<'_>, row: &TemporaryRow) {
    let peak = match row.peak_bytes {
        0 => String::new(),
        peak => bytes(peak),
    };
    let (sum, blocks, largest) = (
        bytes(row.bytes),
        count(row.blocks),
        bytes(row.largest_bytes),
    );
    let of_all = percent(row.blocks, row.all_blocks);
    let figures = [&*sum, &blocks, &of_all, &largest, &peak];
    table.row(&row.owner, figures, row.device);
}

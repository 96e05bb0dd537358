//! Temporary blocks by line, as text.

use super::{Align, Source, Style, Table, Terminal, bytes, count};
use crate::replay::{Replay, many, place};
use crate::views::{Temporary, TemporaryRow, Within};
use gpumem_capture::DeviceOrdinal;

/// The lines, and what they come to. `part`: which part was asked for, after a comma.
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
    let (left, right) = (Align::Left, Align::Right);
    let devices = found
        .rows
        .iter()
        .any(|row| row.device != found.rows[0].device);
    let mut table = Table::new(&[left, left, left, right, right, right, right, right, left])
        .elastic(&[2, 0, 1])
        .keep_end(0);
    let title = format!("Temporary blocks, {said}{part}");
    let device = if devices { "device" } else { "" };
    table.cells(&[
        &title,
        "",
        "",
        "bytes",
        "blocks",
        "of all",
        "largest",
        "in the peak",
        device,
    ]);
    table.style_row(Style::Strong).span(3);
    for row in &found.rows {
        row_cells(&mut table, replay, row, devices, source);
    }
    let mut out = table.render(terminal, 0);
    let blocks = many(found.blocks, "block", "blocks");
    out.push_str(&format!(
        "Together {} in {blocks}, of {whole}.\n",
        bytes(found.bytes)
    ));
    out
}

fn row_cells(
    table: &mut Table,
    replay: &Replay,
    row: &TemporaryRow,
    devices: bool,
    source: &mut Source,
) {
    let text = match row.owner.line() {
        Some(line) => source.line(&line.file, line.line),
        None => String::new(),
    };
    let device = match devices {
        true => place(row.device.map_or(DeviceOrdinal::NONE, DeviceOrdinal)),
        false => String::new(),
    };
    let peak = match row.peak_bytes {
        0 => String::new(),
        peak => bytes(peak),
    };
    // Rounded down: all is said only of all.
    let percent = u128::from(row.blocks) * 100 / u128::from(row.all_blocks.max(1));
    table.cells(&[
        &format!("  {}", row.owner.label(&replay.names)),
        row.owner.function(),
        &text,
        &bytes(row.bytes),
        &count(row.blocks),
        &format!("{percent} %"),
        &bytes(row.largest_bytes),
        &peak,
        &device,
    ]);
    table
        .style(1, Style::Faint)
        .style(2, Style::Faint)
        .note(0, row.owner.note().len());
}

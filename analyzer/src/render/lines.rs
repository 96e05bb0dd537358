//! The table of lines that own memory.

use super::{Align, Style, Table, Terminal, bytes, count, percent};
use crate::account::Phase;
use crate::names::Names;
use crate::source::Source;
use crate::views::LineRow;

/// The first `limit` rows as a table: line, phase if any row has one, function, source, bytes, share of the sum,
/// blocks. `devices`: whether to name the device of each row.
pub fn lines_table(
    rows: &[LineRow],
    limit: usize,
    title: &str,
    devices: bool,
    names: &Names,
    source: &mut Source,
    terminal: Terminal,
) -> String {
    let whole = rows.iter().map(|row| row.bytes).sum();
    // The number of columns before the function.
    let phases = rows.iter().any(|row| row.phase.is_some());
    let estimated = rows.iter().any(|row| row.error_bytes.is_some());
    // Without known categories, the column is omitted.
    let mut categories = rows.iter().flat_map(|row| &row.categories);
    let categories = categories.any(|of| of.category.is_specific());
    let first = 1 + usize::from(phases) + usize::from(categories);
    let mut columns = vec![Align::Left; first + 2];
    columns.push(Align::Right);
    if estimated {
        columns.push(Align::Left);
    }
    columns.extend([Align::Right, Align::Right, Align::Left]);
    let mut table = Table::new(&columns)
        .elastic(&[first + 1, 0, first, first - 1])
        // The line shows the place.
        .shed(&[first, first + 1]);
    let device = if devices { "device" } else { "" };
    let mut heads = vec![""; first + 2];
    heads[0] = title;
    heads.push("bytes");
    if estimated {
        heads.push("± error");
    }
    heads.extend(["share", "blocks", device]);
    table.cells(&heads).style_row(Style::Strong).span(first + 2);
    for row in rows.iter().take(limit) {
        let text = match row.owner.line() {
            Some(line) => source.line(&line.file, line.line),
            None => String::new(),
        };
        let device = match row.device {
            _ if !devices => String::new(),
            Some(ordinal) => format!("GPU {ordinal}"),
            None => "none".into(),
        };
        let label = format!("  {}", row.owner.label(names));
        let (bytes, share, blocks) = (
            bytes(row.bytes),
            percent(row.bytes, whole),
            count(row.blocks),
        );
        let mut cells: Vec<&str> = vec![&label];
        if phases {
            cells.push(row.phase.map_or("", Phase::word));
        }
        let category = row.category();
        if categories {
            cells.push(&category);
        }
        cells.extend([row.owner.function(), &text, &bytes]);
        let error = row.error_bytes.unwrap_or(0);
        let error = format!("± {}", super::bytes(error));
        if estimated {
            cells.push(&error);
        }
        cells.extend([&*share, &blocks, &device]);
        table.cells(&cells);
        table
            .style(first, Style::Faint)
            .style(first + 1, Style::Faint)
            .place(0, row.owner.note().len());
    }
    table.render(terminal, 0)
}

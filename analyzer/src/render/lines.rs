//! The table of lines that own memory, with the parts of each line.

use super::{Align, Style, Table, Terminal, bytes, count, percent};
use crate::account::Phase;
use crate::names::Names;
use crate::replay::Category;
use crate::source::Source;
use crate::views::{LinePart, LineRow};

/// Which rows of a table of lines are shown.
#[derive(Clone, Copy, Debug)]
pub struct ShownLines {
    /// How many lines.
    pub lines: usize,
    /// The bytes from which the parts of a line have rows below it, if there are at least two such parts.
    pub least_part: u64,
    /// Whether to name the device of each row.
    pub devices: bool,
}

impl ShownLines {
    /// All lines with all their parts.
    pub const ALL: Self = Self {
        lines: usize::MAX,
        least_part: 0,
        devices: false,
    };
}

/// Lines as a table: line, phase if any row has one, function, source, bytes, share of the sum of all `rows`, blocks.
/// A line with several parts has a row for each below it.
pub fn lines_table(
    rows: &[LineRow],
    shown: ShownLines,
    title: &str,
    names: &Names,
    source: &mut Source,
    terminal: Terminal,
) -> String {
    let mut columns = Columns::of(rows, shown.devices);
    columns.title(title);
    for row in rows.iter().take(shown.lines) {
        let text = match row.owner.line() {
            Some(line) => source.line(&line.file, line.line),
            None => String::new(),
        };
        let figure = (row.bytes, row.error_bytes, row.blocks);
        let label = format!("  {}", row.label(names));
        let function = row.owner.function();
        columns.row(
            [&label, &row.phase_text(), &row.category(), function, &text],
            figure,
            row.device,
        );
        columns.table.place(0, row.note.len());
        let parts = row.parts.iter();
        let parts: Vec<_> = parts
            .filter(|part| part.bytes >= shown.least_part)
            .collect();
        if !columns.distinguish(&parts) {
            continue;
        }
        for part in parts {
            let figure = (part.bytes, part.error_bytes, part.blocks);
            let phase = part.phase.map_or("", Phase::word);
            let category = part.category.map_or("", Category::name);
            // The line's own row has the note that all parts share.
            let note = match row.note.is_empty() {
                true => part.owner.note(),
                false => String::new(),
            };
            let label = format!("   {note}");
            columns.row([&label, phase, category, "", ""], figure, row.device);
            columns.table.place(0, label.len());
        }
    }
    columns.table.render(terminal, 0)
}

/// The table and its optional columns.
struct Columns {
    table: Table,
    /// The sum of all rows.
    whole: u64,
    /// Whether rows have phases.
    phases: bool,
    /// Whether rows have categories.
    categories: bool,
    /// Whether figures are estimates.
    estimated: bool,
    /// Whether to name devices.
    devices: bool,
    /// The number of columns before the function.
    first: usize,
}

impl Columns {
    fn of(rows: &[LineRow], devices: bool) -> Self {
        let mut parts = rows.iter().flat_map(|row| &row.parts);
        let phases = parts.any(|part| part.phase.is_some());
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
        let table = Table::new(&columns)
            .elastic(&[first + 1, 0, first, first - 1])
            // The line shows the place.
            .shed(&[first, first + 1]);
        Self {
            table,
            whole: rows.iter().map(|row| row.bytes).sum(),
            phases,
            categories,
            estimated,
            devices,
            first,
        }
    }

    /// Whether the shown columns distinguish at least two parts of a line.
    fn distinguish(&self, parts: &[&LinePart]) -> bool {
        let shown = |part: &&LinePart| {
            let phase = part.phase.filter(|_| self.phases);
            let category = part.category.filter(|_| self.categories);
            (phase, category, part.owner.note())
        };
        let first = parts.first().map(shown);
        parts.iter().any(|part| Some(shown(part)) != first)
    }

    fn title(&mut self, title: &str) {
        let mut heads = vec![""; self.first + 2];
        heads[0] = title;
        heads.push("bytes");
        if self.estimated {
            heads.push("± error");
        }
        heads.extend(["share", "blocks", if self.devices { "device" } else { "" }]);
        let span = self.first + 2;
        self.table.cells(&heads).style_row(Style::Strong).span(span);
    }

    /// A row: label, phase, category, function and source; bytes, their standard error, blocks; device.
    fn row(
        &mut self,
        [label, phase, category, function, source]: [&str; 5],
        (size, error, blocks): (u64, Option<u64>, u64),
        device: Option<u8>,
    ) {
        let device = match device {
            _ if !self.devices => String::new(),
            Some(ordinal) => format!("GPU {ordinal}"),
            None => "none".into(),
        };
        let mut cells: Vec<&str> = vec![label];
        if self.phases {
            cells.push(phase);
        }
        if self.categories {
            cells.push(category);
        }
        let (text, share, blocks) = (bytes(size), percent(size, self.whole), count(blocks));
        cells.extend([function, source, &text]);
        let error = format!("± {}", bytes(error.unwrap_or(0)));
        if self.estimated {
            cells.push(&error);
        }
        cells.extend([&*share, &blocks, &device]);
        let first = self.first;
        let row = self.table.cells(&cells);
        row.style(first, Style::Faint)
            .style(first + 1, Style::Faint);
    }
}

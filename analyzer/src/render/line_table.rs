//! Tables with a row for each line: its place, function and source, figures, and device.

use super::{Align, Source, Style, Table, Terminal};
use crate::account::place;
use crate::attribution::Owner;
use crate::names::Names;
use gpumem_capture::DeviceOrdinal;

/// Columns before the figures: line, function, source.
const TEXT_COLUMNS: usize = 3;
/// Figures of a line.
const FIGURES: usize = 5;

/// A table under construction.
pub(super) struct LineTable<'a> {
    table: Table,
    names: &'a Names,
    source: &'a mut Source,
    /// Whether rows belong to several devices and name them.
    devices: bool,
}

impl<'a> LineTable<'a> {
    /// A table with a title and headings of figures. `devices`: whether to name the device of each row.
    pub fn new(
        title: &str,
        figures: [&str; FIGURES],
        mut devices: impl Iterator<Item = Option<u8>>,
        names: &'a Names,
        source: &'a mut Source,
    ) -> Self {
        let (left, right) = (Align::Left, Align::Right);
        let mut table = Table::new(&[left, left, left, right, right, right, right, right, left])
            .elastic(&[2, 0, 1])
            .shed(&[1, 2]);
        let first = devices.next();
        let devices = devices.any(|device| Some(device) != first);
        let [a, b, c, d, e] = figures;
        let device = if devices { "device" } else { "" };
        table.cells(&[title, "", "", a, b, c, d, e, device]);
        table.style_row(Style::Strong).span(TEXT_COLUMNS);
        Self {
            table,
            names,
            source,
            devices,
        }
    }

    /// Begins a group of rows.
    pub fn heading(&mut self, text: &str) {
        let cells = self.table.cells(&[text, "", ""]);
        cells.style(0, Style::Faint).span(TEXT_COLUMNS);
    }

    /// A line and its figures.
    pub fn row(&mut self, owner: &Owner, figures: [&str; FIGURES], device: Option<u8>) {
        let text = match owner.line() {
            Some(line) => self.source.line(&line.file, line.line),
            None => String::new(),
        };
        let device = match self.devices {
            true => place(device.map_or(DeviceOrdinal::NONE, DeviceOrdinal)),
            false => String::new(),
        };
        let label = format!("  {}", owner.label(self.names));
        let [a, b, c, d, e] = figures;
        let function = owner.function();
        let cells = [&label, function, &text, a, b, c, d, e, &device];
        let row = self.table.cells(&cells);
        row.style(1, Style::Faint).style(2, Style::Faint);
        row.place(0, owner.note().len());
    }

    /// The text of the table.
    pub fn render(&self, terminal: Terminal) -> String {
        self.table.render(terminal, 0)
    }
}

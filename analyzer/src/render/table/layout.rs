//! How a table's rows become lines.

use textwrap::core::display_width;

use super::super::Terminal;
use super::cell::Cell;
use super::widths::{Asked, GAP, row_width};

/// The alignment of a column's cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Text.
    Left,
    /// Numbers.
    Right,
}

pub(super) fn naturals(asked: &[Asked]) -> Vec<usize> {
    asked.iter().map(|asked| asked.natural).collect()
}

/// The cells of a row, each with its first column.
pub(super) fn columns(row: &[Cell]) -> impl Iterator<Item = (usize, &Cell)> {
    row.iter().scan(0, |next, cell| {
        let column = *next;
        *next += cell.span;
        Some((column, cell))
    })
}

/// The common properties of all rows.
pub(super) struct Layout<'a> {
    pub columns: &'a [Align],
    pub asked: &'a [Asked],
    pub widths: &'a [usize],
    pub terminal: Terminal,
    pub indent: usize,
}

impl Layout<'_> {
    /// A cell's text as shown.
    pub fn shown(&self, column: usize, cell: &Cell) -> String {
        cell.fitted(self.width(column, cell), self.asked[column].natural)
    }

    fn width(&self, column: usize, cell: &Cell) -> usize {
        row_width(&self.widths[column..(column + cell.span).min(self.widths.len())])
    }

    /// A row and the end of its line.
    pub fn row(&self, row: &[Cell], out: &mut String) {
        let mut line = " ".repeat(self.indent);
        let mut pending = 0;
        for (column, cell) in columns(row) {
            let width = self.width(column, cell);
            if width == 0 {
                continue;
            }
            if cell.is_empty() {
                pending += width + GAP;
                continue;
            }
            if cell.span > 1 && cell.natural() > width {
                self.title(cell, out);
                pending += width + GAP;
                continue;
            }
            let text = self.shown(column, cell);
            let pad = width.saturating_sub(display_width(&text));
            let (before, after) = match self.columns[column] {
                Align::Right => (pad, 0),
                Align::Left => (0, pad),
            };
            line.push_str(&" ".repeat(pending + before));
            match cell.style {
                Some(style) => line.push_str(&self.terminal.paint(style, &text)),
                None => line.push_str(&text),
            }
            pending = after + GAP;
        }
        if !line.trim().is_empty() || row.iter().all(Cell::is_empty) {
            out.push_str(line.trim_end());
            out.push('\n');
        }
    }

    /// A cell on separate lines.
    fn title(&self, cell: &Cell, out: &mut String) {
        let text = format!("{}{}", " ".repeat(self.indent), cell.whole());
        for line in self.terminal.wrap(&text).lines() {
            let text = line.trim_start();
            out.push_str(&line[..line.len() - text.len()]);
            match cell.style {
                Some(style) => out.push_str(&self.terminal.paint(style, text)),
                None => out.push_str(text),
            }
            out.push('\n');
        }
    }

    /// The difference between the row above and similar ones.
    pub fn below(&self, text: &str, out: &mut String) {
        let text = format!("{}{text}", " ".repeat(self.indent + 2 * GAP));
        for line in self.terminal.wrap(&text).lines() {
            out.push_str(line);
            out.push('\n');
        }
    }
}

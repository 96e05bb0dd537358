//! Columns that align, and fit the terminal without making two different rows look the same.

mod apart;
mod cell;
mod layout;
#[cfg(test)]
mod tests;
mod widths;

use textwrap::core::display_width;

use super::{Style, Terminal};
use cell::{Cell, Content};
use layout::{Layout, columns, naturals};
use widths::{Asked, GAP, row_width};

pub use layout::Align;

/// Rows of cells; [`Table::render`] aligns them.
pub struct Table {
    columns: Vec<Align>,
    /// The columns that are cut if the terminal is narrow, in this order.
    elastic: Vec<usize>,
    /// The columns that are omitted if cutting is not enough, in this order.
    shed: Vec<usize>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table with these columns, two blanks between them.
    pub fn new(columns: &[Align]) -> Self {
        Self {
            columns: columns.to_vec(),
            elastic: Vec::new(),
            shed: Vec::new(),
            rows: Vec::new(),
        }
    }

    /// The columns that are cut (with `…`) if a row is wider than the terminal, in this order.
    pub fn elastic(mut self, columns: &[usize]) -> Self {
        self.elastic = columns.to_vec();
        self
    }

    /// The columns that are omitted if that is not enough, in this order.
    pub fn shed(mut self, columns: &[usize]) -> Self {
        self.shed = columns.to_vec();
        self
    }

    /// Adds a row; missing cells are empty.
    pub fn row<const N: usize>(&mut self, cells: [&str; N]) -> &mut Self {
        self.cells(&cells)
    }

    /// The same for any number of cells.
    pub fn cells(&mut self, cells: &[&str]) -> &mut Self {
        self.rows
            .push(cells.iter().map(|text| Cell::text(text)).collect());
        self
    }

    /// The first cell of the row added last spans `columns` columns. The others of these must be empty.
    pub fn span(&mut self, columns: usize) -> &mut Self {
        if let Some(row) = self.rows.last_mut() {
            row.drain(1..columns.min(row.len()));
            row[0].span = columns;
        }
        self
    }

    /// A cell of the row added last is a path. If it is too wide, it loses folders. The last `note` bytes are a note,
    /// which is cut at its end.
    pub fn place(&mut self, column: usize, note: usize) -> &mut Self {
        if let Some(cell) = self.cell(column)
            && let Content::Text(text) = &cell.content
        {
            let (path, note) = text
                .split_at_checked(text.len().saturating_sub(note))
                .unwrap_or((text, ""));
            let trimmed = path.trim_start_matches(' ');
            cell.content = Content::Place {
                indent: path.len() - trimmed.len(),
                path: trimmed.to_owned(),
                note: note.to_owned(),
            };
        }
        self
    }

    /// A cell of the row added last is a bar of `part` in `whole`, at most `most` columns wide.
    pub fn bar(&mut self, column: usize, part: u64, whole: u64, most: usize) -> &mut Self {
        if let Some(cell) = self.cell(column) {
            cell.content = Content::Bar { part, whole, most };
            cell.style = Some(Style::Bar);
        }
        self
    }

    /// Styles a cell of the row added last.
    pub fn style(&mut self, column: usize, style: Style) -> &mut Self {
        if let Some(cell) = self.cell(column) {
            cell.style = Some(style);
        }
        self
    }

    /// A text of the row added last keeps the columns of a name while other columns can give way or be left out.
    pub fn keep(&mut self, column: usize) -> &mut Self {
        if let Some(cell) = self.cell(column) {
            cell.kept = true;
        }
        self
    }

    fn cell(&mut self, column: usize) -> Option<&mut Cell> {
        self.rows.last_mut().and_then(|row| row.get_mut(column))
    }

    /// Styles every cell of the row added last.
    pub fn style_row(&mut self, style: Style) -> &mut Self {
        for column in 0..self.columns.len() {
            self.style(column, style);
        }
        self
    }

    /// The rows as lines, each after `indent` blanks.
    pub fn render(&self, terminal: Terminal, indent: usize) -> String {
        let asked = self.asked(terminal);
        let widths = match terminal.width.map(|width| width.saturating_sub(indent)) {
            Some(limit) if row_width(&naturals(&asked)) > limit => {
                let widths = widths::fit(&asked, limit, &self.elastic, &self.shed);
                self.with_slack(widths, &asked, limit)
            }
            _ => naturals(&asked),
        };
        let layout = Layout {
            columns: &self.columns,
            asked: &asked,
            widths: &widths,
            terminal,
            indent,
        };
        let mut out = String::new();
        let mut more = apart::told_apart(&self.rows, &layout);
        for (index, row) in self.rows.iter().enumerate() {
            layout.row(row, &mut out);
            if let Some(more) = more.remove(&index) {
                layout.below(&more, &mut out);
            }
        }
        out
    }

    /// The widths that the rows need in each column.
    fn asked(&self, terminal: Terminal) -> Vec<Asked> {
        let mut asked = vec![Asked::default(); self.columns.len()];
        for row in &self.rows {
            for (column, cell) in columns(row).filter(|(_, cell)| cell.span == 1) {
                asked[column].add(cell);
            }
        }
        // On a terminal, a title that is wider than the columns it spans is on a separate line.
        if terminal.width.is_some() {
            return asked;
        }
        for row in &self.rows {
            for (column, cell) in columns(row).filter(|(_, cell)| cell.span > 1) {
                let over = &mut asked[column..column + cell.span];
                let have = row_width(&naturals(over));
                let gap = match over.last() {
                    Some(last) if last.natural == 0 && have > 0 => GAP,
                    _ => 0,
                };
                if let Some(last) = over.last_mut() {
                    last.natural += cell.natural().saturating_sub(have + gap);
                }
            }
        }
        asked
    }

    /// The width that paths without their folders leave is given to text columns.
    fn with_slack(&self, mut widths: Vec<usize>, asked: &[Asked], limit: usize) -> Vec<usize> {
        for column in &self.elastic {
            let cells = self.rows.iter().flat_map(|row| columns(row));
            let cells = cells.filter(|(of, cell)| of == column && cell.span == 1);
            let fitted = cells.map(|(_, cell)| {
                let text = cell.fitted(widths[*column], asked[*column].natural);
                display_width(&text)
            });
            widths[*column] = fitted.max().unwrap_or(0);
        }
        let text = self.elastic.iter();
        for column in text.filter(|column| !asked[**column].has_places) {
            let left = limit.saturating_sub(row_width(&widths));
            if widths[*column] > 0 {
                widths[*column] = (widths[*column] + left).min(asked[*column].natural);
            }
        }
        widths
    }
}

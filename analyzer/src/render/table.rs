//! Columns that align.

use super::{Style, Terminal};

/// Which side a column's cells lean to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Text.
    Left,
    /// Numbers.
    Right,
}

/// No column is made narrower.
const LEAST: usize = 12;
/// A note is cut to no less than this.
const NOTE: usize = 3;

struct Cell {
    text: String,
    style: Option<Style>,
    /// Bytes at the text's end that give way before what stands before them.
    note: usize,
    /// Columns that the text runs over.
    span: usize,
}

impl Cell {
    fn fitting(&self, width: usize, keep_end: bool) -> String {
        let (text, note) = self
            .text
            .split_at_checked(self.text.len() - self.note)
            .unwrap_or((&self.text, ""));
        let left = width.saturating_sub(width_of(text));
        // No room for a part of the note worth reading: the text alone.
        let note = if left > NOTE || width_of(note) <= left {
            cut(note, left)
        } else {
            String::new()
        };
        let text = match keep_end {
            true => cut_start(text, width),
            false => cut(text, width),
        };
        text + &note
    }
}

/// Rows of cells; [`Table::render`] aligns them.
pub struct Table {
    columns: Vec<Align>,
    /// The columns that give way where the terminal is narrow, the first as far as it can first.
    elastic: Vec<usize>,
    /// The column that is cut at its start.
    keep_end: Option<usize>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table with these columns, two blanks between them.
    pub fn new(columns: &[Align]) -> Self {
        Self {
            columns: columns.to_vec(),
            elastic: Vec::new(),
            keep_end: None,
            rows: Vec::new(),
        }
    }

    /// The columns that are cut (with `…`) where a row is wider than the terminal, one after the other.
    pub fn elastic(mut self, columns: &[usize]) -> Self {
        self.elastic = columns.to_vec();
        self
    }

    /// The column that is cut at its start, for paths.
    pub fn keep_end(mut self, column: usize) -> Self {
        self.keep_end = Some(column);
        self
    }

    /// Adds a row; missing cells are empty.
    pub fn row<const N: usize>(&mut self, cells: [&str; N]) -> &mut Self {
        self.cells(&cells)
    }

    /// The same, of any number of cells.
    pub fn cells(&mut self, cells: &[&str]) -> &mut Self {
        let cells = cells
            .iter()
            .map(|text| Cell {
                text: clean(text),
                style: None,
                note: 0,
                span: 1,
            })
            .collect();
        self.rows.push(cells);
        self
    }

    /// Lets the first cell of the row added last run over `columns` columns; the others of these must be
    /// empty.
    pub fn span(&mut self, columns: usize) -> &mut Self {
        if let Some(row) = self.rows.last_mut() {
            row.drain(1..columns.min(row.len()));
            row[0].span = columns;
        }
        self
    }

    /// The last `bytes` bytes of a cell of the row added last are a note: where the cell is too wide,
    /// that is cut first, at its end.
    pub fn note(&mut self, column: usize, bytes: usize) -> &mut Self {
        if let Some(cell) = self.rows.last_mut().and_then(|row| row.get_mut(column)) {
            cell.note = bytes.min(cell.text.len());
        }
        self
    }

    /// Styles a cell of the row added last.
    pub fn style(&mut self, column: usize, style: Style) -> &mut Self {
        if let Some(cell) = self.rows.last_mut().and_then(|row| row.get_mut(column)) {
            cell.style = Some(style);
        }
        self
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
        let widths = self.widths(terminal, indent);
        let mut out = String::new();
        for row in &self.rows {
            let mut line = " ".repeat(indent);
            let (mut column, mut pending) = (0, 0);
            for cell in row {
                let over = &widths[column..(column + cell.span).min(widths.len())];
                let width = over.iter().sum::<usize>() + 2 * (over.len().saturating_sub(1));
                let align = self.columns[column];
                let keep_end = cell.span == 1 && self.keep_end == Some(column);
                column += cell.span;
                if cell.text.is_empty() {
                    pending += width + 2;
                    continue;
                }
                let text = cell.fitting(width, keep_end);
                let pad = width - width_of(&text);
                let (before, after) = if align == Align::Right {
                    (pad, 0)
                } else {
                    (0, pad)
                };
                line.push_str(&" ".repeat(pending + before));
                match cell.style {
                    Some(style) => line.push_str(&terminal.paint(style, &text)),
                    None => line.push_str(&text),
                }
                pending = after + 2;
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }

    fn widths(&self, terminal: Terminal, indent: usize) -> Vec<usize> {
        let mut widths = vec![0; self.columns.len()];
        for row in self
            .rows
            .iter()
            .filter(|row| row.iter().all(|cell| cell.span == 1))
        {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(width_of(&cell.text));
            }
        }
        for row in &self.rows {
            let mut column = 0;
            for cell in row {
                if cell.span == 1 {
                    widths[column] = widths[column].max(width_of(&cell.text));
                } else {
                    let over = &mut widths[column..column + cell.span];
                    let have = over.iter().sum::<usize>() + 2 * (over.len() - 1);
                    if let Some(last) = over.last_mut() {
                        *last += width_of(&cell.text).saturating_sub(have);
                    }
                }
                column += cell.span;
            }
        }
        if let Some(limit) = terminal.width {
            for elastic in &self.elastic {
                let used =
                    indent + widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1);
                let over = used.saturating_sub(limit);
                let least = widths[*elastic].min(LEAST);
                widths[*elastic] = widths[*elastic].saturating_sub(over).max(least);
            }
        }
        widths
    }
}

/// Columns that a text takes: its characters, wide ones as two.
fn width_of(text: &str) -> usize {
    text.chars().map(|c| if is_wide(c) { 2 } else { 1 }).sum()
}

fn is_wide(c: char) -> bool {
    matches!(c as u32, 0x1100..=0x115f | 0x2e80..=0xa4cf | 0xac00..=0xd7a3 | 0xf900..=0xfaff
        | 0xfe30..=0xfe6f | 0xff00..=0xff60 | 0xffe0..=0xffe6 | 0x1f300..=0x1faff | 0x20000..=0x3fffd)
}

fn cut(text: &str, width: usize) -> String {
    if width_of(text) <= width {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut used = 0;
    for c in text.chars() {
        let next = if is_wide(c) { 2 } else { 1 };
        if used + next + 1 > width {
            break;
        }
        used += next;
        out.push(c);
    }
    out.push('…');
    out
}

fn cut_start(text: &str, width: usize) -> String {
    if width_of(text) <= width {
        return text.to_owned();
    }
    let backwards: String = text.chars().rev().collect();
    cut(&backwards, width).chars().rev().collect()
}

/// Text from a capture must not steer the terminal.
fn clean(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(&[Align::Left, Align::Right, Align::Left]).elastic(&[0]);
        table.row(["train.py:88 forward", "3.21 GiB", "x"]);
        table.row(["名.py:1", "7 B", ""]);
        table
    }

    #[test]
    fn columns_align_and_lines_end_where_their_text_does() {
        let expected = "  train.py:88 forward  3.21 GiB  x\n  名.py:1                   7 B\n";
        assert_eq!(table().render(Terminal::PLAIN, 2), expected);
    }

    #[test]
    fn a_title_runs_over_columns() {
        let left = Align::Left;
        let mut table = Table::new(&[left, left, Align::Right]);
        table
            .row(["A long title of two columns", "", "bytes"])
            .span(2);
        table.row(["a.py:1", "f", "7 B"]);
        let expected = "A long title of two columns  bytes\na.py:1  f                      7 B\n";
        assert_eq!(table.render(Terminal::PLAIN, 0), expected);
    }

    #[test]
    fn a_narrow_terminal_cuts_the_elastic_column_only() {
        let narrow = Terminal {
            width: Some(30),
            colour: false,
        };
        let expected = "train.py:88 forw…  3.21 GiB  x\n名.py:1                 7 B\n";
        assert_eq!(table().render(narrow, 0), expected);
    }

    #[test]
    fn columns_give_way_in_their_order_and_paths_keep_their_end() {
        let left = Align::Left;
        let mut table = Table::new(&[left, left]).elastic(&[1, 0]).keep_end(0);
        table.row(["/very/long/path/to/train.py:88", "loss = f(x).sum()"]);
        let narrow = Terminal {
            width: Some(34),
            colour: false,
        };
        assert_eq!(
            table.render(narrow, 0),
            "…path/to/train.py:88  loss = f(x)…\n"
        );
    }

    #[test]
    fn a_note_gives_way_before_what_it_stands_after() {
        let mut table = Table::new(&[Align::Left]).elastic(&[0]).keep_end(0);
        let note = " (backward: MmBackward0)";
        table.row(["folder/train.py:88 (backward: MmBackward0)"]);
        table.note(0, note.len());
        let at = |width| {
            let (width, colour) = (Some(width), false);
            table.render(Terminal { width, colour }, 0)
        };
        assert_eq!(at(80), "folder/train.py:88 (backward: MmBackward0)\n");
        assert_eq!(at(30), "folder/train.py:88 (backward:…\n");
        assert_eq!(at(20), "folder/train.py:88\n");
        assert_eq!(at(15), "…er/train.py:88\n");
    }

    #[test]
    fn text_from_a_capture_cannot_steer_the_terminal() {
        let mut table = Table::new(&[Align::Left]);
        table.row(["\x1b[2Jx"]);
        assert_eq!(table.render(Terminal::PLAIN, 0), "\u{fffd}[2Jx\n");
    }
}

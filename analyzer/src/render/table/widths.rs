//! The width of each column if a row is wider than the terminal.

use super::cell::{Cell, Content, FLOOR};

/// Columns between two others.
pub(super) const GAP: usize = 2;
/// A text column keeps this width until paths have lost their folders.
const COMFORT: usize = 32;
/// Bars shrink to this before text does.
const BAR: usize = 12;

/// The widths that the rows need in a column.
#[derive(Clone, Copy, Default)]
pub(super) struct Asked {
    /// Without cuts.
    pub natural: usize,
    /// While other columns can shrink.
    least: usize,
    has_bars: bool,
    /// Whether it contains paths, which lose whole folders.
    pub has_places: bool,
}

impl Asked {
    /// Adds a cell to the column.
    pub fn add(&mut self, cell: &Cell) {
        self.natural = self.natural.max(cell.natural());
        self.least = self.least.max(cell.least());
        self.has_bars |= matches!(cell.content, Content::Bar { .. });
        self.has_places |= matches!(cell.content, Content::Place { .. });
    }
}

/// The width of a row without its indentation.
pub(super) fn row_width(widths: &[usize]) -> usize {
    let shown = widths.iter().filter(|width| **width > 0).count();
    widths.iter().sum::<usize>() + GAP * shown.saturating_sub(1)
}

/// Widths with a sum of at most `limit`. `elastic`: the columns that are cut, in this order. `shed`: the columns that
/// are omitted if that is not enough, in this order.
pub(super) fn fit(asked: &[Asked], limit: usize, elastic: &[usize], shed: &[usize]) -> Vec<usize> {
    let mut left_out = 0;
    loop {
        let mut asked = asked.to_vec();
        for column in shed.iter().take(left_out) {
            asked[*column] = Asked::default();
        }
        let widths = narrowed(&asked, limit, elastic);
        if row_width(&widths) <= limit {
            return widths;
        }
        if left_out == shed.len() {
            return squeezed(widths, &asked, limit, elastic);
        }
        left_out += 1;
    }
}

/// Gives each column the largest possible width, but at least a readable one.
fn narrowed(asked: &[Asked], limit: usize, elastic: &[usize]) -> Vec<usize> {
    let mut widths: Vec<usize> = asked.iter().map(|asked| asked.natural).collect();
    let bars = || (0..asked.len()).filter(|column| asked[*column].has_bars);
    let text = || elastic.iter().filter(|column| !asked[**column].has_bars);
    for column in bars() {
        give_way(&mut widths, column, BAR, limit);
    }
    for column in text().filter(|column| !asked[**column].has_places) {
        give_way(&mut widths, *column, COMFORT, limit);
    }
    for column in text().filter(|column| asked[**column].has_places) {
        give_way(&mut widths, *column, asked[*column].least, limit);
    }
    for column in bars() {
        give_way(&mut widths, column, asked[column].least, limit);
    }
    for column in text() {
        give_way(&mut widths, *column, asked[*column].least, limit);
    }
    widths
}

/// The last resort: cells that are barely readable. Columns with places shrink last.
fn squeezed(
    mut widths: Vec<usize>,
    asked: &[Asked],
    limit: usize,
    elastic: &[usize],
) -> Vec<usize> {
    let bars = (0..asked.len()).filter(|column| asked[*column].has_bars);
    let (places, text): (Vec<usize>, Vec<usize>) = elastic
        .iter()
        .partition(|column| asked[**column].has_places);
    for column in bars.chain(text).chain(places) {
        give_way(&mut widths, column, FLOOR, limit);
    }
    widths
}

fn give_way(widths: &mut [usize], column: usize, least: usize, limit: usize) {
    let over = row_width(widths).saturating_sub(limit);
    let width = &mut widths[column];
    *width = (*width).min(width.saturating_sub(over).max(least));
}

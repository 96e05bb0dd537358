//! Rows that differ only in the parts that are cut off.

use std::collections::{BTreeSet, HashMap};

use super::cell::{Cell, Content};
use super::layout::{Align, Layout, columns};

/// For each row that looks the same as another but is not: its contents in the columns that differ.
pub(super) fn told_apart(rows: &[Vec<Cell>], layout: &Layout<'_>) -> HashMap<usize, String> {
    let mut alike: HashMap<Vec<String>, Vec<usize>> = HashMap::new();
    if layout.terminal.width.is_some() {
        for (index, row) in rows.iter().enumerate() {
            let is_plain = row.iter().all(|cell| cell.span == 1);
            let shown: Vec<String> = texts(row, layout)
                .map(|(column, cell)| layout.shown(column, cell))
                .collect();
            if is_plain && !shown.is_empty() {
                alike.entry(shown).or_default().push(index);
            }
        }
    }
    let mut more = HashMap::new();
    for group in alike.values().filter(|group| group.len() > 1) {
        let wholes: Vec<Vec<(usize, &Cell)>> = group
            .iter()
            .map(|index| texts(&rows[*index], layout).collect())
            .collect();
        let mut differing = (0..wholes[0].len())
            .filter(|at| {
                let said: BTreeSet<String> = wholes
                    .iter()
                    .filter_map(|cells| Some(cells.get(*at)?.1.whole()))
                    .collect();
                said.len() > 1
            })
            .peekable();
        if differing.peek().is_none() {
            continue;
        }
        let differing: Vec<usize> = differing.collect();
        for (index, cells) in group.iter().zip(&wholes) {
            let paths: BTreeSet<&str> = wholes.iter().flatten().filter_map(path).collect();
            let said = differing.iter().filter_map(|at| cells.get(*at));
            let said: Vec<String> = said
                .map(|(_, cell)| match &cell.content {
                    // If the paths are equal, only the note differs.
                    Content::Place { note, .. } if paths.len() == 1 => note.trim().to_owned(),
                    _ => cell.whole(),
                })
                .filter(|said| !said.is_empty())
                .collect();
            if !said.is_empty() {
                more.insert(*index, said.join("  "));
            }
        }
    }
    more
}

fn path<'a>((_, cell): &(usize, &'a Cell)) -> Option<&'a str> {
    match &cell.content {
        Content::Place { path, .. } => Some(path),
        Content::Text(_) | Content::Bar { .. } => None,
    }
}

/// The text cells.
fn texts<'a>(row: &'a [Cell], layout: &Layout<'_>) -> impl Iterator<Item = (usize, &'a Cell)> {
    let columns_of = layout.columns;
    columns(row).filter(move |(column, cell)| {
        columns_of[*column] == Align::Left && !matches!(cell.content, Content::Bar { .. })
    })
}

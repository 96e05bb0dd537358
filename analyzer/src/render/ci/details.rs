//! The parts of the peaks of a changed workload, folded.

use super::markdown::{code, html_code, text};
use super::words::{place, plus};
use crate::account::many;
use crate::render::bytes;
use crate::views::ci::{DevicePeaks, PartChange, Workload};

/// Rows of a block in addition to its parts.
const AROUND: usize = 7;

/// A workload's changed parts on one device.
pub struct Block<'a> {
    /// The workload.
    pub workload: &'a Workload,
    /// The device's figures.
    pub row: &'a DevicePeaks,
}

impl Block<'_> {
    fn kinds(&self) -> [(&'static str, &'static str, &[PartChange]); 3] {
        [
            ("line", "lines", &self.row.lines),
            ("category", "categories", &self.row.categories),
            ("module", "modules", &self.row.modules),
        ]
    }

    /// The number of rows with at most `most` parts of each kind.
    pub fn height(&self, most: usize) -> usize {
        let kinds = self.kinds().into_iter();
        let parts =
            kinds.map(|(_, _, parts)| parts.len().min(most) + usize::from(parts.len() > most));
        AROUND + parts.sum::<usize>()
    }

    /// Writes the rows, with at most `most` parts of each kind. The others are merged into one row, so that the rows
    /// sum to the change.
    pub fn draw(&self, most: usize, out: &mut String) {
        let kinds = self.kinds();
        let counts = kinds.iter().filter(|(_, _, parts)| !parts.is_empty());
        let counts = counts.map(|(one, more, parts)| many(parts.len() as u64, one, more));
        let counts = counts.collect::<Vec<_>>().join(", ");
        let place = place(self.workload, self.row.device, html_code);
        out.push_str(&format!(
            "<details><summary>{place}: {counts}</summary>\n\n"
        ));
        out.push_str("| | | base | head | change |\n|---|---|--:|--:|--:|\n");
        for (one, more, parts) in kinds {
            for part in parts.iter().take(most) {
                out.push_str(&format!(
                    "| {one} | {} | {} |\n",
                    named(part),
                    figures(part)
                ));
            }
            let others = parts.get(most..).unwrap_or_default();
            if !others.is_empty() {
                let change = others.iter().map(|part| part.change_bytes).sum();
                let word = if others.len() == 1 { one } else { more };
                let count = others.len();
                out.push_str(&format!(
                    "| | {count} more {word} | | | {} |\n",
                    plus(change)
                ));
            }
        }
        out.push_str("\n</details>\n\n");
    }
}

fn named(part: &PartChange) -> String {
    let mut named = code(&part.name);
    if let Some(of) = &part.of {
        named.push_str(&format!(" {}", text(of)));
    }
    if let Some(phase) = part.phase {
        named.push_str(&format!(", {}", phase.word()));
    }
    named
}

fn figures(part: &PartChange) -> String {
    let (base, head) = (bytes(part.base_bytes), bytes(part.head_bytes));
    format!("{base} | {head} | {}", plus(part.change_bytes))
}

//! How the memory of the line that has most of it splits.

use super::{Align, Style, Table, Terminal, bytes, count, percent};
use crate::account::many;
use crate::views::LineSplit;

/// The most parts of each kind.
const PARTS: usize = 5;

/// A table of the parts, with its own headings.
pub fn split_text(split: &LineSplit, terminal: Terminal) -> String {
    let (left, right) = (Align::Left, Align::Right);
    let mut table = Table::new(&[left, left, right, right, right])
        .elastic(&[1, 0])
        .shed(&[1]);
    let how = match split.callers {
        true => "by caller",
        false => "by the newest line outside PyTorch",
    };
    let lines = split
        .lines
        .iter()
        .map(|of| (&of.line, &*of.function, of.bytes, of.blocks));
    let modules = split
        .modules
        .iter()
        .map(|of| (&of.module, "", of.bytes, of.blocks));
    let share = percent(split.bytes, split.live_bytes);
    for (how, parts) in [
        (how, Vec::from_iter(lines)),
        ("by module", Vec::from_iter(modules)),
    ] {
        if parts.is_empty() {
            continue;
        }
        let title = format!("{} ({share} of it) {how}", split.line);
        table
            .cells(&[&title, "", "bytes", "share", "blocks"])
            .style_row(Style::Strong)
            .span(2);
        let mut row = |label: &str, function: &str, size: u64, blocks: u64| {
            let (text, share) = (bytes(size), percent(size, split.bytes));
            let label = format!("  {label}");
            let row = table.cells(&[&label, function, &text, &share, &count(blocks)]);
            row.style(1, Style::Faint).place(0, 0);
        };
        for (label, function, size, blocks) in parts.iter().take(PARTS) {
            row(label, function, *size, *blocks);
        }
        let rest = parts.get(PARTS..).unwrap_or_default();
        if !rest.is_empty() {
            let size = rest.iter().map(|(_, _, size, _)| size).sum();
            let blocks = rest.iter().map(|(_, _, _, blocks)| blocks).sum();
            row(
                &format!("… {}", many(rest.len() as u64, "more", "more")),
                "",
                size,
                blocks,
            );
        }
    }
    table.render(terminal, 0)
}

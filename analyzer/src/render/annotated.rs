//! Source files with bytes in the margin.

use std::collections::BTreeMap;

use super::{Source, Style, Terminal, bytes, count};
use crate::account::many;
use crate::names::Names;
use crate::views::{Annotated, FileUse, LineUse};

/// Lines of source shown around each line that allocated.
const AROUND: u32 = 2;
/// Width of a column of bytes.
const COLUMN: usize = 10;
/// Longer lines of source are cut if the output is not a terminal.
const SOURCE: usize = 100;

/// All files, each with the lines that allocated and the lines around them. `when` is a phrase such as `at the peak`.
pub fn annotated_text(
    annotated: &Annotated,
    when: &str,
    names: &Names,
    source: &mut Source,
    terminal: Terminal,
) -> String {
    let mut out = String::new();
    for file in &annotated.files {
        out.push_str(&terminal.paint(Style::Strong, names.short_path(&file.file)));
        let lines = many(file.lines.len() as u64, "line", "lines");
        let (live, all) = (bytes(file.live_bytes), bytes(file.allocated_bytes));
        out.push_str(&format!(
            ": {live} live {when}, {all} allocated by {lines}\n"
        ));
        out.push_str(&head(terminal));
        out.push_str(&lines_of(file, source, terminal));
        out.push('\n');
    }
    if annotated.other_live_bytes > 0 || annotated.other_allocated_bytes > 0 {
        out.push_str(&format!(
            "{} live {when} and {} allocated are not owned by a line of a file: see gpumem-analyze lines.\n",
            bytes(annotated.other_live_bytes),
            bytes(annotated.other_allocated_bytes)
        ));
    }
    out
}

fn head(terminal: Terminal) -> String {
    let columns = ["live", "allocated", "freed", "growth"];
    let mut head: String = columns.map(|name| format!("{name:>COLUMN$} ")).concat();
    head.push_str(&format!("{:>9}", "allocs"));
    terminal.paint(Style::Faint, &head) + "\n"
}

fn lines_of(file: &FileUse, source: &mut Source, terminal: Terminal) -> String {
    // Functions that share a line, such as a lambda and the function around it, have one line of source.
    let mut uses: BTreeMap<u32, LineUse> = BTreeMap::new();
    for line in &file.lines {
        let of = uses.entry(line.line).or_default();
        of.live_bytes += line.live_bytes;
        of.allocated_bytes += line.allocated_bytes;
        of.freed_bytes += line.freed_bytes;
        of.growth_bytes += line.growth_bytes;
        of.allocations += line.allocations;
        if !of.function.is_empty() {
            of.function.push_str(", ");
        }
        of.function.push_str(&line.function);
    }
    let text = source.text(&file.file);
    let mut out = String::new();
    let mut shown = 0;
    for (number, line) in &uses {
        if let Some(text) = text {
            let from = number.saturating_sub(AROUND).max(shown + 1);
            if shown > 0 && from > shown + 1 {
                out.push_str(&terminal.paint(Style::Faint, &format!("{:>60}\n", "⋮")));
            }
            for before in from..*number {
                out.push_str(&row(before, None, text, terminal));
            }
            out.push_str(&row(*number, Some(line), text, terminal));
            let next = uses.range(number + 1..).next().map(|(next, _)| *next);
            let to = (number + AROUND).min(next.map_or(u32::MAX, |next| next - 1));
            for after in number + 1..=to.min(text.len() as u32) {
                out.push_str(&row(after, None, text, terminal));
            }
            shown = to;
        } else {
            let function = terminal.paint(Style::Faint, &line.function);
            out.push_str(&format!("{} {number:>6}  {function}\n", margin(Some(line))));
        }
    }
    out
}

/// One line of source with its margin, cut to the terminal's width.
fn row(number: u32, line: Option<&LineUse>, text: &[String], terminal: Terminal) -> String {
    let source = text
        .get((number as usize).wrapping_sub(1))
        .map_or("", String::as_str);
    let margin = margin(line);
    let room = terminal.width.map_or(SOURCE, |width| {
        width.saturating_sub(margin.chars().count() + 9)
    });
    let source: String = source.chars().take(room).collect();
    let number = format!("{number:>6}");
    let (number, source) = match line {
        Some(_) => (number, source),
        None => (
            terminal.paint(Style::Faint, &number),
            terminal.paint(Style::Faint, &source),
        ),
    };
    let row = format!("{margin} {number}  {source}");
    format!("{}\n", row.trim_end())
}

fn margin(line: Option<&LineUse>) -> String {
    let Some(line) = line else {
        return " ".repeat(4 * (COLUMN + 1) + 9);
    };
    let cell = |value: u64| match value {
        0 => format!("{:>COLUMN$} ", "·"),
        value => format!("{:>COLUMN$} ", bytes(value)),
    };
    let cells = [
        line.live_bytes,
        line.allocated_bytes,
        line.freed_bytes,
        line.growth_bytes,
    ];
    cells.map(cell).concat() + &format!("{:>9}", count(line.allocations))
}

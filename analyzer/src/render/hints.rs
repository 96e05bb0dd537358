//! Hints as text.

use super::{Source, Style, Terminal, bytes, count};
use crate::names::Names;
use crate::views::Hints;

/// Widest column of lines.
const WIDE: usize = 60;

/// All hints: the observation, the lines that support it, and what to do. `devices`: whether to name the device.
pub fn hints_text(
    hints: &Hints,
    devices: bool,
    names: &Names,
    source: &mut Source,
    terminal: Terminal,
) -> String {
    let mut out = String::new();
    for hint in &hints.hints {
        let device = match devices {
            true => format!("GPU {}: ", hint.device),
            false => String::new(),
        };
        out.push_str(&terminal.paint(Style::Strong, "  - "));
        out.push_str(&format!("{device}{}\n", hint.what));
        // The holder of the others comes before them.
        let others = hint.lines.iter().filter(|line| match &hint.holder {
            Some(holder) => line.owner != holder.owner,
            None => true,
        });
        let lines: Vec<_> = hint.holder.iter().chain(others).collect();
        let labels: Vec<String> = lines.iter().map(|line| line.owner.label(names)).collect();
        let width = labels.iter().map(|label| label.chars().count()).max();
        let width = width.unwrap_or_default().min(WIDE);
        for (line, label) in lines.iter().zip(&labels) {
            let text = match line.owner.line() {
                Some(line) => source.line(&line.file, line.line),
                None => String::new(),
            };
            let (held, blocks) = (bytes(line.bytes), count(line.blocks));
            let row = format!("      {held:>9} in {blocks:>5}  {label:<width$}  {text}");
            out.push_str(row.trim_end());
            out.push('\n');
        }
        if !hint.advice.is_empty() {
            out.push_str(&format!("    → {}\n", hint.advice));
        }
    }
    out
}

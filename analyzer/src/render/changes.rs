//! Changes line by line, as gpu_mem_track prints them.

use super::{Align, Style, Table, Terminal, bytes, count, mebibytes};
use crate::names::Names;
use crate::views::{Change, Group};

/// Changes as a table, each with the number of similar ones. `devices`: whether to name the device.
pub fn changes_table(
    changes: &[(&Change, u64)],
    title: &str,
    devices: bool,
    names: &Names,
    terminal: Terminal,
) -> String {
    let (left, right) = (Align::Left, Align::Right);
    let mut table = Table::new(&[left, left, right, right, right, right, left])
        .elastic(&[1, 0])
        .shed(&[1]);
    let device = if devices { "device" } else { "" };
    table
        .row([title, "", "change", "live after", "up to", "times", device])
        .style_row(Style::Strong)
        .span(2);
    for (change, times) in changes {
        let place = match (&change.file, change.line) {
            (Some(file), Some(line)) => format!("  {}:{line}", names.short_path(file)),
            _ => "  (outside Python)".into(),
        };
        let sign = if change.change_bytes < 0 { '-' } else { '+' };
        let device = match change.device {
            _ if !devices => String::new(),
            Some(ordinal) => format!("GPU {ordinal}"),
            None => "none".into(),
        };
        table.row([
            &place,
            change.function.as_deref().unwrap_or(""),
            &format!("{sign}{}", bytes(change.change_bytes.unsigned_abs())),
            &bytes(change.total_bytes),
            &bytes(change.peak_bytes),
            &count(*times),
            &device,
        ]);
        table.place(0, 0).style(1, Style::Faint);
    }
    table.render(terminal, 0)
}

/// The head line of a change. `devices`: whether to name the device.
fn change_head(change: &Change, devices: bool, names: &Names, terminal: Terminal) -> String {
    let place = match (&change.file, change.line) {
        (Some(file), Some(line)) => {
            let function = change.function.as_deref().unwrap_or("?");
            format!("At {} {function}: line {line}", names.short_path(file))
        }
        _ => "Outside Python".into(),
    };
    let sign = if change.change_bytes < 0 { '-' } else { '+' };
    let delta = format!("{sign}{}", mebibytes(change.change_bytes.unsigned_abs()));
    let mut head = format!("{place:<44} {delta:>12}");
    head.push_str(&format!(
        "  Total Used Memory: {}",
        mebibytes(change.total_bytes)
    ));
    let peak = mebibytes(change.peak_bytes);
    let highest_end = change.peak_bytes.saturating_sub(change.rise());
    if peak != mebibytes(highest_end) {
        head.push_str(&format!("  (up to {peak} in between)"));
    }
    if devices {
        let device = change
            .device
            .map_or("no GPU".into(), |ordinal| format!("GPU {ordinal}"));
        head.push_str(&format!("  {device}"));
    }
    let mut out = terminal.paint(Style::Strong, &head);
    out.push('\n');
    out
}

/// One change: its head line and its groups.
pub fn change_text(change: &Change, devices: bool, names: &Names, terminal: Terminal) -> String {
    let mut out = change_head(change, devices, names, terminal);
    let limit = usize::MAX;
    for (sign, groups) in [('+', &change.added), ('-', &change.removed)] {
        out.push_str(&groups_text(sign, groups, limit));
    }
    out
}

fn groups_text(sign: char, groups: &[Group], limit: usize) -> String {
    let memory = |group: &Group| group.bytes.saturating_mul(group.blocks);
    let mut out = String::new();
    for group in groups.iter().take(limit) {
        let size = bytes(group.bytes);
        let blocks = count(group.blocks);
        let memory = bytes(memory(group));
        out.push_str(&format!(
            "{sign} | {blocks:>5} * Size: {size:<9} | Memory: {memory}\n"
        ));
    }
    if let Some(rest) = groups.get(limit..).filter(|rest| !rest.is_empty()) {
        let memory = rest.iter().map(memory).fold(0, u64::saturating_add);
        let sizes = if rest.len() == 1 { "size" } else { "sizes" };
        out.push_str(&format!(
            "{sign} | {:>5} more {sizes:<13} | Memory: {}\n",
            rest.len(),
            bytes(memory)
        ));
    }
    out
}

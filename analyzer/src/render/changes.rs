//! Changes line by line, as gpu_mem_track prints them.

use super::{Style, Terminal, bytes, count, mebibytes};
use crate::names::Names;
use crate::views::{Change, Group};

/// The head line of a change. `times`: how often it happened alike. `devices`: whether to name the device.
pub fn change_head(
    change: &Change,
    times: u64,
    devices: bool,
    names: &Names,
    terminal: Terminal,
) -> String {
    let place = match (&change.file, change.line) {
        (Some(file), Some(line)) => {
            let function = change.function.as_deref().unwrap_or("?");
            format!("At {} {function}: line {line}", names.short_path(file))
        }
        _ => "Outside Python".into(),
    };
    let place: String = place
        .chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect();
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
    if times > 1 {
        head.push_str(&format!("  ({} times alike)", count(times)));
    }
    let mut out = terminal.paint(Style::Strong, &head);
    out.push('\n');
    out
}

/// One change: its head line and its groups.
pub fn change_text(change: &Change, devices: bool, names: &Names, terminal: Terminal) -> String {
    let mut out = change_head(change, 1, devices, names, terminal);
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

//! The program's scopes, as text.

use gpumem_capture::{DeviceOrdinal, Level, Nanos};

use super::{Align, Style, Table, Terminal, bytes, count, signed, time};
use crate::account::place;
use crate::views::{ScopeName, ScopeRow, Scopes};

/// The name of nameless scopes.
const NAMELESS: &str = "(nameless)";

/// The scopes of a level by name, for each GPU. `each`: whether to list them one by one below.
pub fn scopes_text(scopes: &Scopes, level: Level, each: bool, terminal: Terminal) -> String {
    let names: Vec<_> = scopes.names.iter().filter(|of| of.level == level).collect();
    let mut out = String::new();
    for on in names.chunk_by(|a, b| a.device == b.device) {
        if !out.is_empty() {
            out.push('\n');
        }
        let device = on.first().and_then(|of| of.device);
        out.push_str(&terminal.paint(Style::Strong, &title(level, device)));
        out.push('\n');
        out.push_str(&by_name(on, terminal));
        if each {
            out.push('\n');
            out.push_str(&one_by_one(scopes, level, device, terminal));
        }
    }
    if !scopes.marks.is_empty() {
        out.push_str(if out.is_empty() { "" } else { "\n" });
        out.push_str(&terminal.paint(Style::Strong, "Marks"));
        out.push('\n');
        let mut table = Table::new(&[Align::Right, Align::Right, Align::Left]);
        for mark in &scopes.marks {
            let name = mark.name.as_deref().unwrap_or(NAMELESS);
            table.row([&time(Nanos(mark.ns)), &count(mark.seq), name]);
        }
        out.push_str(&table.render(terminal, 2));
    }
    out
}

fn title(level: Level, device: Option<u8>) -> String {
    let device = device.map_or(DeviceOrdinal::NONE, DeviceOrdinal);
    format!("Scopes on {}, {level} level", place(device))
}

fn by_name(on: &[&ScopeName], terminal: Terminal) -> String {
    let (left, right) = (Align::Left, Align::Right);
    let mut table = Table::new(&[left, right, right, right, right, right]);
    let heads = [
        "scope",
        "times",
        "added in all",
        "most added",
        "highest peak",
        "in that of event",
    ];
    table.row(heads).style_row(Style::Faint);
    for of in on {
        table.row([
            of.name.as_deref().unwrap_or(NAMELESS),
            &count(of.scopes),
            &signed(of.change_bytes),
            &signed(of.most_change_bytes),
            &bytes(of.most_above_bytes),
            &count(of.most_above_seq),
        ]);
    }
    table.render(terminal, 2)
}

fn one_by_one(scopes: &Scopes, level: Level, device: Option<u8>, terminal: Terminal) -> String {
    let (left, right) = (Align::Left, Align::Right);
    let mut table = Table::new(&[right, right, left, right, right, right]);
    let heads = ["from", "to", "scope", "start", "added", "peak above"];
    table.row(heads).style_row(Style::Faint);
    for row in &scopes.scopes {
        let of = |of: &&_| matches!(of, crate::views::ScopeFigures { device: d, level: l, .. } if *d == device && *l == level);
        let Some(figures) = row.figures.iter().find(of) else {
            continue;
        };
        table.row([
            &time(Nanos(row.begin_ns)),
            &end_of(row),
            row.name.as_deref().unwrap_or(NAMELESS),
            &bytes(figures.start_bytes),
            &signed(figures.change()),
            &bytes(figures.above()),
        ]);
    }
    table.render(terminal, 2)
}

fn end_of(row: &ScopeRow) -> String {
    row.end_ns
        .map_or_else(|| "goes on".to_owned(), |at| time(Nanos(at)))
}

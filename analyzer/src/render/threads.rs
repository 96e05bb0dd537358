//! Allocations and frees of each thread, as text.

use gpumem_capture::Level;

use super::{Align, Style, Table, Terminal, bytes, count};
use crate::account::place;
use crate::views::{ThreadRow, ThreadsOn};

/// A table for each GPU. `when` is the point in time of live blocks and the requested part.
pub fn threads_text(level: Level, found: &[ThreadsOn], when: &str, terminal: Terminal) -> String {
    let mut out = String::new();
    for (index, on) in found.iter().enumerate() {
        out.push_str(if index > 0 { "\n" } else { "" });
        let title = format!("Threads at the {level} level on {}", place(on.ordinal));
        out.push_str(&terminal.paint(Style::Strong, &title));
        out.push_str(&format!("; live {when}\n"));
        let (left, right) = (Align::Left, Align::Right);
        let columns = [left, right, right, right, right, right, right, right];
        let mut table = Table::new(&columns).elastic(&[0]);
        let heads = [
            "thread", "id", "allocs", "bytes", "frees", "bytes", "live", "bytes",
        ];
        table.row(heads).style_row(Style::Faint);
        for row in &on.rows {
            let id = row.thread.map(|id| id.to_string()).unwrap_or_default();
            let name = match (row.thread, &row.name) {
                (None, _) => "not known",
                (_, name) => name.as_deref().unwrap_or_default(),
            };
            fill(&mut table, name, &id, row);
        }
        fill(&mut table, "together", "", &on.sum);
        table.style_row(Style::Strong);
        out.push_str(&table.render(terminal, 2));
    }
    out
}

fn fill(table: &mut Table, name: &str, id: &str, row: &ThreadRow) {
    table.row([
        name,
        id,
        &count(row.allocations),
        &bytes(row.allocated_bytes),
        &count(row.frees),
        &bytes(row.freed_bytes),
        &count(row.live_blocks),
        &bytes(row.live_bytes),
    ]);
}

//! The table of modules that own memory.

use super::{Align, Style, Table, Terminal, bytes, count, percent};
use crate::account::place;
use crate::names::NO_MODULE;
use crate::views::ModuleRow;
use gpumem_capture::DeviceOrdinal;

/// Rows as a table: module, class, bytes, share, blocks; and the device if there are several.
pub fn modules_table(rows: &[ModuleRow], title: &str, terminal: Terminal) -> String {
    let (left, right) = (Align::Left, Align::Right);
    let first = rows.first().map(|row| row.device);
    let devices = rows.iter().any(|row| Some(row.device) != first);
    let estimated = rows.iter().any(|row| row.error_bytes.is_some());
    let mut table = Table::new(&[left, left, right, left, right, right, left])
        .elastic(&[0, 1])
        .shed(&[1]);
    let error = if estimated { "± error" } else { "" };
    let device = if devices { "device" } else { "" };
    table
        .cells(&[title, "", "bytes", error, "share", "blocks", device])
        .style_row(Style::Strong)
        .span(2);
    let whole = rows.iter().map(|row| row.bytes).sum();
    for row in rows {
        let name = row.module.as_deref().unwrap_or(NO_MODULE);
        // A module without a name is shown by its class.
        let class = row.class.as_deref();
        let class = class.filter(|class| !name.starts_with(class));
        let note = match row.workspace {
            true => " (cuBLAS workspace)",
            false => "",
        };
        let name = format!("  {name}{note}");
        let error = row.error_bytes.map(|error| format!("± {}", bytes(error)));
        let on = row.device.map_or(DeviceOrdinal::NONE, DeviceOrdinal);
        let device = if devices { place(on) } else { String::new() };
        let cells = [
            &name,
            class.unwrap_or(""),
            &bytes(row.bytes),
            error.as_deref().unwrap_or(""),
            &percent(row.bytes, whole),
            &count(row.blocks),
            &device,
        ];
        let cells = table.cells(&cells);
        cells.style(1, Style::Faint).place(0, note.len());
    }
    table.render(terminal, 0)
}

//! The table of categories of tensors.

use super::{Align, Style, Table, Terminal, bytes, count, percent};
use crate::account::place;
use crate::views::CategoryRow;
use gpumem_capture::DeviceOrdinal;

/// A row for each category: bytes, share, blocks, and the device if there are several.
pub fn categories_table(rows: &[CategoryRow], title: &str, terminal: Terminal) -> String {
    let whole = rows.iter().map(|row| row.bytes).sum();
    let (left, right) = (Align::Left, Align::Right);
    let mut table = Table::new(&[left, right, right, right, left]).elastic(&[0]);
    let is_of_several = rows.windows(2).any(|two| two[0].device != two[1].device);
    let device = if is_of_several { "device" } else { "" };
    table.cells(&[title, "bytes", "share", "blocks", device]);
    table.style_row(Style::Strong);
    for row in rows {
        let device = match is_of_several {
            true => place(row.device.map_or(DeviceOrdinal::NONE, DeviceOrdinal)),
            false => String::new(),
        };
        let cells = [
            format!("  {}", row.category.name()),
            bytes(row.bytes),
            percent(row.bytes, whole),
            count(row.blocks),
            device,
        ];
        table.cells(&cells.each_ref().map(String::as_str));
    }
    let mut text = table.render(terminal, 0);
    text.push_str(&format!("Together {}.\n", bytes(whole)));
    text
}

//! Tables with a row for each group of memory: modules, categories, functions, callers, files, libraries, phases.

use super::{Align, Style, Table, Terminal, bytes, count, percent};
use crate::account::{Phase, place};
use crate::names::NO_MODULE;
use crate::views::{CategoryRow, GroupBy, GroupRow, ModuleRow};
use gpumem_capture::DeviceOrdinal;

/// The note of modules' workspaces.
const WORKSPACE: &str = " (cuBLAS workspace)";

/// A row: name, note after the name, faint text, bytes, standard error, blocks, device.
struct Row<'a> {
    name: &'a str,
    note: &'static str,
    more: &'a str,
    bytes: u64,
    error_bytes: Option<u64>,
    blocks: u64,
    device: Option<u8>,
}

/// Modules: module, class, bytes, share, blocks; and the device if there are several.
pub fn modules_table(rows: &[ModuleRow], title: &str, terminal: Terminal) -> String {
    fn row(row: &ModuleRow) -> Row<'_> {
        let ModuleRow {
            module,
            class,
            workspace,
            ..
        } = row;
        let name = module.as_deref().unwrap_or(NO_MODULE);
        // A module without a name is shown by its class.
        let class = class.as_deref().filter(|class| !name.starts_with(class));
        Row {
            name,
            note: if *workspace { WORKSPACE } else { "" },
            more: class.unwrap_or_default(),
            bytes: row.bytes,
            error_bytes: row.error_bytes,
            blocks: row.blocks,
            device: row.device,
        }
    }
    table(rows.iter().map(row).collect(), title, terminal)
}

/// Categories of tensors: category, bytes, share, blocks; and the device if there are several.
pub fn categories_table(rows: &[CategoryRow], title: &str, terminal: Terminal) -> String {
    let row = |row: &CategoryRow| Row {
        name: row.category.name(),
        note: "",
        more: "",
        bytes: row.bytes,
        error_bytes: None,
        blocks: row.blocks,
        device: row.device,
    };
    table(rows.iter().map(row).collect(), title, terminal)
}

/// Functions with their files, callers with their functions, files, libraries or phases: bytes, share, blocks; and the
/// device if there are several.
pub fn groups_table(rows: &[GroupRow], by: GroupBy, title: &str, terminal: Terminal) -> String {
    let none = match by {
        GroupBy::Function | GroupBy::File => "(no Python)",
        GroupBy::Caller => "(no caller)",
        GroupBy::Library => "(no library)",
        GroupBy::Phase => "(no phase)",
    };
    let mut all = Vec::new();
    for row in rows {
        let more = match by {
            GroupBy::Function => row.file.as_deref().and_then(|file| file.rsplit('/').next()),
            _ => row.function.as_deref(),
        };
        all.push(Row {
            name: match row.name.as_deref().unwrap_or(none) {
                name if by == GroupBy::Phase => phase(name),
                name => name,
            },
            note: "",
            more: more.unwrap_or_default(),
            bytes: row.bytes,
            error_bytes: row.error_bytes,
            blocks: row.blocks,
            device: row.device,
        });
    }
    table(all, title, terminal)
}

/// The label of a phase.
fn phase(name: &str) -> &str {
    let mut all = Phase::ALL.into_iter();
    let phase = all.find(|of| of.key() == name);
    phase.map_or(name, |of| of.word())
}

fn table(rows: Vec<Row<'_>>, title: &str, terminal: Terminal) -> String {
    let (left, right) = (Align::Left, Align::Right);
    let devices = rows.windows(2).any(|two| two[0].device != two[1].device);
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
        let name = format!("  {}{}", row.name, row.note);
        let error = row.error_bytes.map(|error| format!("± {}", bytes(error)));
        let on = row.device.map_or(DeviceOrdinal::NONE, DeviceOrdinal);
        let device = if devices { place(on) } else { String::new() };
        let cells = [
            &name,
            row.more,
            &bytes(row.bytes),
            error.as_deref().unwrap_or(""),
            &percent(row.bytes, whole),
            &count(row.blocks),
            &device,
        ];
        let cells = table.cells(&cells);
        cells.style(1, Style::Faint).place(0, row.note.len());
    }
    let mut text = table.render(terminal, 0);
    text.push_str(&format!("Together {}.\n", bytes(whole)));
    text
}

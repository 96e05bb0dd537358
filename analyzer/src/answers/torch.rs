//! Memory by what PyTorch knows of it: module and category.

use super::table::{Answer, Cell, Column, Label, Row, Unit};
use crate::names::NO_MODULE;
use crate::views::{categories, modules};

/// The note of modules' workspaces.
const WORKSPACE: &str = " (cuBLAS workspace)";

/// Modules that ran.
pub(super) const MODULE: Answer = Answer {
    name: "module",
    about: "PyTorch module",
    form: "modules",
    title: "Modules that own",
    columns: &[
        Column::new("device", Unit::Device, "Device ordinal; `null` for memory of no device."),
        Column::new("module", Unit::Text, "The innermost module that ran: its qualified name, such as `blocks.3.attn`, or its class and number, such as `Block#3`, if the name is not known. Memory of an autograd node counts for the module of its forward. `null`: no module ran.").or_null(),
        Column::new("class", Unit::Text, "The module's class. `null`: no module ran, or its class is not in the capture.").or_null(),
        Column::new("workspace", Unit::Flag, "Whether the blocks are workspaces of cuBLAS. Absent if not.").or_absent(),
        Column::new("bytes", Unit::Bytes, "Bytes of its blocks; an estimate if stacks are sampled."),
        Column::new("blocks", Unit::Count, "Number of its blocks; an estimate if stacks are sampled."),
        Column::new("error_bytes", Unit::Bytes, "The standard error of `bytes`. Absent if stacks are not sampled, and at levels other than `tensor`.").or_absent(),
    ],
    rows: |replay, stacks| {
        let rows = modules(replay, stacks).into_iter();
        let row = rows.map(|row| {
            let name = row.module.as_deref().unwrap_or(NO_MODULE);
            // A module without a name is shown by its class.
            let class = row.class.as_deref().filter(|class| !name.starts_with(class));
            let label = Label {
                note: if row.workspace { WORKSPACE } else { "" },
                ..Label::new(name, class.unwrap_or_default())
            };
            Row {
                label: Some(label),
                cells: vec![
                    row.device.map(u64::from).into(),
                    row.module.into(),
                    row.class.into(),
                    if row.workspace { Cell::Flag(true) } else { Cell::None },
                    Cell::Number(row.bytes),
                    Cell::Number(row.blocks),
                    row.error_bytes.into(),
                ],
            }
        });
        row.collect()
    },
};

/// Categories of tensors.
pub(super) const CATEGORY: Answer = Answer {
    name: "category",
    about: "Category: parameter, gradient, activation …",
    form: "categories",
    title: "Categories of",
    columns: &[
        Column::new(
            "device",
            Unit::Device,
            "Device ordinal; `null` for memory of no device.",
        ),
        Column::new(
            "category",
            Unit::Text,
            "The category: `parameter`, `gradient`, `optimizer state`, `activation`, `input`, `workspace`, `temporary` or `other`.",
        ),
        Column::new("bytes", Unit::Bytes, "Bytes of its blocks."),
        Column::new("blocks", Unit::Count, "Number of its blocks."),
    ],
    rows: |_, stacks| {
        let rows = categories(stacks).into_iter();
        let row = rows.map(|row| {
            Row::of(vec![
                row.device.map(u64::from).into(),
                Cell::Text(row.category.name().to_owned()),
                Cell::Number(row.bytes),
                Cell::Number(row.blocks),
            ])
        });
        row.collect()
    },
};

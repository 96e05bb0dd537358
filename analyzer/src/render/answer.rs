//! Answers as text: a table with a row for each group of memory.

use gpumem_capture::DeviceOrdinal;

use super::{Align, Style, Table, Terminal, bytes, count, percent};
use crate::account::place;
use crate::answers::{Answer, Cell, Label, Presence, Row, Table as Rows, Unit};

/// A column of the printed table, after the name and the text beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    /// A column's number, and its index.
    Number(Unit, usize),
    /// The standard error in a column.
    Error(usize),
    /// The share in all bytes.
    Share,
    /// The GPU.
    Device,
}

/// Name, text beside it, bytes, share, and the further columns; the device only if there are several.
pub fn answer_table(rows: &Rows, title: &str, terminal: Terminal) -> String {
    let shown = shown(rows);
    let number = |of: &Shown| matches!(of, Shown::Number(..) | Shown::Share);
    let aligns = shown.iter().map(|of| match number(of) {
        true => Align::Right,
        false => Align::Left,
    });
    let aligns: Vec<Align> = [Align::Left, Align::Left]
        .into_iter()
        .chain(aligns)
        .collect();
    let mut table = Table::new(&aligns).elastic(&[0, 1]).shed(&[1]);
    let heads = shown.iter().map(|of| head(rows.answer, *of));
    let heads: Vec<String> = [title.to_owned(), String::new()]
        .into_iter()
        .chain(heads)
        .collect();
    table.cells(&texts(&heads)).style_row(Style::Strong).span(2);
    let whole = rows.bytes();
    for row in &rows.rows {
        let label = row.label.clone().unwrap_or_else(|| label(rows.answer, row));
        let name = format!("  {}{}", label.name, label.note);
        let cells = shown.iter().map(|of| cell(rows, row, *of, whole));
        let cells: Vec<String> = [name, label.more].into_iter().chain(cells).collect();
        let cells = table.cells(&texts(&cells));
        cells.style(1, Style::Faint).place(0, label.note.len());
    }
    let mut text = table.render(terminal, 0);
    text.push_str(&format!("Together {}.\n", bytes(whole)));
    text
}

fn texts(all: &[String]) -> Vec<&str> {
    all.iter().map(String::as_str).collect()
}

/// The columns after the name, in order. The error is beside the bytes, and the share after both.
fn shown(rows: &Rows) -> Vec<Shown> {
    let has = |at: usize| {
        rows.rows
            .iter()
            .any(|row| row.cells.get(at) != Some(&Cell::None))
    };
    let device = rows.position("device");
    let devices = rows
        .rows
        .windows(2)
        .any(|two| device.is_some_and(|at| two[0].cells.get(at) != two[1].cells.get(at)));
    let mut shown = Vec::new();
    for (at, column) in rows.answer.columns.iter().enumerate() {
        match (column.name, column.unit) {
            ("bytes", _) => {
                let error = rows.position("error_bytes").filter(|at| has(*at));
                shown.push(Shown::Number(Unit::Bytes, at));
                shown.extend(error.map(Shown::Error));
                shown.push(Shown::Share);
            }
            ("error_bytes", _) | (_, Unit::Text | Unit::Flag | Unit::Device) => {}
            _ if column.presence != Presence::Always && !has(at) => {}
            (_, unit) => shown.push(Shown::Number(unit, at)),
        }
    }
    shown.extend(devices.then_some(Shown::Device));
    shown
}

fn head(answer: &Answer, of: Shown) -> String {
    match of {
        Shown::Number(_, at) => {
            let name = answer.columns.get(at).map_or("", |column| column.name);
            name.strip_suffix("_bytes")
                .unwrap_or(name)
                .replace('_', " ")
        }
        Shown::Error(_) => "± error".into(),
        Shown::Share => "share".into(),
        Shown::Device => "device".into(),
    }
}

fn cell(rows: &Rows, row: &Row, of: Shown, whole: u64) -> String {
    let at = |at: usize| match row.cells.get(at) {
        Some(Cell::Number(number)) => Some(*number),
        _ => None,
    };
    match of {
        Shown::Number(Unit::Bytes, index) => at(index).map(bytes).unwrap_or_default(),
        Shown::Number(_, index) => at(index).map(count).unwrap_or_default(),
        Shown::Error(index) => at(index)
            .map(|error| format!("± {}", bytes(error)))
            .unwrap_or_default(),
        Shown::Share => percent(rows.number(row, "bytes"), whole),
        Shown::Device => {
            let ordinal = rows.position("device").and_then(at);
            let ordinal = ordinal.and_then(|ordinal| u8::try_from(ordinal).ok());
            place(ordinal.map_or(DeviceOrdinal::NONE, DeviceOrdinal))
        }
    }
}

/// The first column with text, and the other ones.
fn label(answer: &Answer, row: &Row) -> Label {
    let cells = answer.columns.iter().zip(&row.cells);
    let mut texts = cells.filter_map(|(column, cell)| match (column.unit, cell) {
        (Unit::Text, Cell::Text(text)) => Some(text.as_str()),
        (Unit::Text, _) => Some("(none)"),
        _ => None,
    });
    let name = texts.next().unwrap_or("(none)");
    Label::new(name, &texts.collect::<Vec<_>>().join(", "))
}

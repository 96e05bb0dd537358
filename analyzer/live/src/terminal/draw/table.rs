//! Draws the table of owners.

use gpumem_analyzer::render::{bytes, count, signed};
use gpumem_capture::{DeviceOrdinal, Level};
use ratatui::Frame as Screen;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use crate::frames::{By, Frame, Order};

use super::super::app::{App, Mode};
use super::super::style::Look;
use super::line::line;

fn level_word(level: Level) -> &'static str {
    match level {
        Level::TENSOR => "tensors",
        Level::DRIVER => "memory from CUDA",
        Level::HOST => "pinned host memory",
        _ => "physical memory",
    }
}

pub(super) fn table_line(frame: &Frame, app: &App, look: Look) -> Line<'static> {
    let by = match frame.ask.by {
        By::Line => "Lines",
        By::Category => "Categories",
        By::Module => "Modules",
    };
    let when = match &app.spot {
        None => "now",
        Some(_) => "then",
    };
    let only = frame
        .ask
        .device
        .map(|device: DeviceOrdinal| format!(", GPU {}", device.0));
    let table = &frame.table;
    let mut parts = vec![Span::styled(
        format!(
            "{by}: {} {when}{}, {}",
            level_word(table.level),
            only.unwrap_or_default(),
            bytes(table.total)
        ),
        look.strong(),
    )];
    // The part that may be cut off at the right comes last.
    let mut apart = ", ";
    if app.mode == Mode::Filter || !app.filter.is_empty() {
        let end = if app.mode == Mode::Filter { "_" } else { "" };
        parts.push(Span::raw(format!("  /{}{end}", app.filter)));
        apart = "  ";
    }
    let mut rest = match &table.measure {
        Some(of) if of.order == app.sort.order() => {
            format!("by {} {}", app.sort.word(), of.over)
        }
        _ => format!("by {}", app.sort.word()),
    };
    if table.seq != frame.seq {
        // While a program runs the table may be older than the figures above it.
        rest = format!("as of event {}, {rest}", count(table.seq.0));
    }
    parts.push(Span::styled(format!("{apart}{rest}"), look.faint()));
    Line::from(parts)
}

pub(super) fn draw_table(
    screen: &mut Screen<'_>,
    area: Rect,
    frame: &Frame,
    app: &mut App,
    look: Look,
) {
    app.fit = usize::from(area.height);
    app.rows_at = area.y;
    app.keep_in_sight();
    let many = frame.devices.len() > 1;
    let shown: Vec<_> = app
        .rows
        .iter()
        .enumerate()
        .skip(app.first)
        .take(app.fit)
        .collect();
    let name_width = shown
        .iter()
        .map(|(_, row)| row.name.chars().count())
        .max()
        .unwrap_or(0);
    let has_measure = shown.iter().any(|(_, row)| row.measure.is_some());
    let figures = 27 + if many { 7 } else { 0 } + if has_measure { 14 } else { 0 };
    let rest = usize::from(area.width).saturating_sub(figures);
    let name_width = name_width.min(rest * 2 / 3).max(10);
    for ((place, row), at) in shown.into_iter().zip(area.rows()) {
        let device = match (many, row.device) {
            (false, _) => String::new(),
            (true, Some(device)) => format!("GPU {device:<3}"),
            (true, None) => " ".repeat(7),
        };
        let figures = format!(
            "{:>9} {:>5} {:>7}  {device}",
            bytes(row.bytes),
            row.share,
            count(row.blocks)
        );
        let measure = row.measure.map(|of| measured(app.sort.order(), of));
        let figures = match measure {
            Some(measure) => format!("{measure:>14}{figures}"),
            None => figures,
        };
        let name = end_of(&row.name, name_width, look);
        let pad = " ".repeat(name_width.saturating_sub(name.chars().count()));
        let more = [&row.of, &row.more].map(String::as_str);
        let more: Vec<_> = more.into_iter().filter(|text| !text.is_empty()).collect();
        let text = format!("{name}{pad}  {}", more.join(", "));
        let style = match place == app.selected {
            true => look.selected(),
            false => ratatui::style::Style::new(),
        };
        line(screen, at, Line::styled(format!("{figures}{text}"), style));
    }
    if app.rows.is_empty() {
        let text = match app.filter.is_empty() {
            true => "  no live memory".to_owned(),
            false => "  no row contains this text".to_owned(),
        };
        line(
            screen,
            Rect { height: 1, ..area },
            Line::styled(text, look.faint()),
        );
    }
}

/// The text of a figure in this order.
fn measured(order: Order, of: i64) -> String {
    match order {
        Order::Growth => format!("{}/step", signed(of)),
        Order::Rate if of < 100_000 => format!("{:.2}/s", of as f64 / 1000.0),
        Order::Rate => format!("{}/s", count((of / 1000).unsigned_abs())),
        Order::Peak | Order::Bytes => bytes(of.unsigned_abs()),
    }
}

/// The end of a name identifies it better than its beginning: a file's own name and the line.
fn end_of(name: &str, width: usize, look: Look) -> String {
    let length = name.chars().count();
    if length <= width {
        return name.to_owned();
    }
    let mark = look.either('…', '~');
    let end: String = name.chars().skip(length - width + 1).collect();
    format!("{mark}{end}")
}

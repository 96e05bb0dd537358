//! Draws the view of a folder.

use gpumem_analyzer::account::many;
use gpumem_analyzer::render::{bytes, count};
use ratatui::Frame as Screen;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::Style;
use ratatui::text::Line;
use ratatui::widgets::Paragraph;

use crate::frames::{DeviceNow, Folder, FolderRow, Frame, State};

use super::draw::draw_help;
use super::folder::FolderApp;
use super::help::FOLDER_KEYS;
use super::style::Look;

/// The smallest screen of the view.
const LEAST: (u16, u16) = (40, 6);
/// Width of the bar for the share of the card.
const BAR: usize = 4;

/// A column: its heading, its width, and its text for a rank.
struct Column {
    head: &'static str,
    width: usize,
    is_text: bool,
    cell: fn(&Frame, Look) -> String,
}

const fn figure(head: &'static str, width: usize, cell: fn(&Frame, Look) -> String) -> Column {
    Column {
        head,
        width,
        is_text: false,
        cell,
    }
}

/// The columns by importance: columns that do not fit are omitted completely.
fn columns(width: usize) -> Vec<Column> {
    let all = [
        (0, figure("rank", 5, |of, _| number(of.rank()))),
        (7, figure("local", 5, |of, _| number(of.row.local_rank))),
        (
            5,
            Column {
                head: "host/pid",
                width: 15,
                is_text: true,
                cell: host,
            },
        ),
        (
            1,
            Column {
                head: "state",
                width: 8,
                is_text: true,
                cell: |of, _| state(&of.state),
            },
        ),
        (
            2,
            figure("tensors", 8, |of, _| bytes(on(of, |on| on.now.tensor))),
        ),
        (
            3,
            figure("peak", 8, |of, _| bytes(of.row.tensor_peak_bytes)),
        ),
        (
            6,
            figure("reserved", 8, |of, _| {
                optional(of.main_device().and_then(|on| on.now.reserved))
            }),
        ),
        (
            9,
            figure("process", 8, |of, _| bytes(on(of, DeviceNow::process))),
        ),
        (
            8,
            figure("NVML", 8, |of, _| {
                optional(of.main_device().and_then(DeviceNow::nvml))
            }),
        ),
        (4, figure("card", 9, card)),
        (5, figure("step", 6, |of, _| count(of.steps))),
        (6, figure("fail", 4, |of, _| count(of.failure_count))),
    ];
    let mut room = width.saturating_sub(1);
    let mut by_weight: Vec<usize> = (0..all.len()).collect();
    by_weight.sort_by_key(|at| all[*at].0);
    let mut kept = vec![false; all.len()];
    for at in by_weight {
        let needs = all[at].1.width + 1;
        if needs <= room {
            (room, kept[at]) = (room - needs, true);
        }
    }
    let kept = all.into_iter().zip(kept).filter(|(_, is_kept)| *is_kept);
    kept.map(|((_, column), _)| column).collect()
}

fn number(of: Option<u64>) -> String {
    of.map_or_else(|| "-".to_owned(), |of| of.to_string())
}

/// A figure of the GPU on which the process has held most.
fn on(of: &Frame, figure: fn(&DeviceNow) -> u64) -> u64 {
    of.main_device().map_or(0, figure)
}

fn optional(of: Option<u64>) -> String {
    of.map_or_else(|| "-".to_owned(), bytes)
}

fn host(of: &Frame, look: Look) -> String {
    let pid = of.pid.to_string();
    let host = of.row.host.as_deref().unwrap_or("-");
    let room = 14usize.saturating_sub(pid.len());
    let short: String = match host.chars().count() > room {
        true => {
            let kept = host.chars().take(room.saturating_sub(1));
            kept.chain([look.either('…', '~')]).collect()
        }
        false => host.to_owned(),
    };
    format!("{short}/{pid}")
}

fn state(of: &State) -> String {
    match of {
        State::CatchingUp(at, of) => format!("read {:>2}%", at * 100 / (*of).max(1)),
        State::Running => "running".into(),
        State::Ended(_) => "ended".into(),
        State::Killed(_) => "killed".into(),
        State::Stopped(_) => "stopped".into(),
    }
}

/// The process's share of its card, with a bar.
fn card(of: &Frame, look: Look) -> String {
    let Some(card) = of.row.card_bytes.filter(|card| *card > 0) else {
        return "-".into();
    };
    let share = on(of, DeviceNow::process) as f64 / card as f64;
    let full = ((share * BAR as f64).round() as usize).min(BAR);
    let (filled, empty) = (look.either('█', '#'), look.either('░', '.'));
    let bar: String = (0..BAR)
        .map(|cell| if cell < full { filled } else { empty })
        .collect();
    format!("{:>3.0}% {bar}", share * 100.0)
}

/// Draws the whole view.
pub fn draw_folder(folder: &Folder, app: &mut FolderApp, look: Look, screen: &mut Screen<'_>) {
    let area = screen.area();
    if area.width < LEAST.0 || area.height < LEAST.1 {
        let text = format!("needs {} columns and {} lines", LEAST.0, LEAST.1);
        screen.render_widget(Paragraph::new(text), area);
        return;
    }
    let parts = [
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(1),
        Constraint::Length(1),
        Constraint::Length(1),
    ];
    let [head, names, table, of, foot] = Layout::vertical(parts).areas(area);
    let put = |screen: &mut Screen<'_>, at, text: String, style| {
        screen.render_widget(Paragraph::new(Line::styled(text, style)), at);
    };
    put(screen, head, head_line(folder, app, look), look.strong());
    if app.is_help {
        let keys = Layout::vertical([Constraint::Length(2), Constraint::Min(1)]);
        let [_, keys] = keys.areas(area);
        draw_help(screen, keys, &FOLDER_KEYS, look);
        put(screen, foot, "Esc back  q quit".into(), look.faint());
        return;
    }
    let columns = columns(usize::from(area.width));
    let text = columns
        .iter()
        .map(|of| aligned(of, of.head))
        .collect::<String>();
    put(screen, names, format!(" {text}"), look.faint());
    app.fit = usize::from(table.height);
    app.keep_in_sight();
    let selected = app.at();
    let shown = app.rows.iter().enumerate().skip(app.first);
    for ((place, row), at) in shown.zip(table.rows()) {
        let style = match place == selected {
            true => look.selected(),
            false if is_bad(row) => look.bad(),
            false => Style::new(),
        };
        put(screen, at, row_line(row, &columns, look), style);
    }
    if app.rows.is_empty() {
        let text = "  no capture yet: each one appears when its program starts";
        put(screen, table, text.into(), look.faint());
    }
    if let Some(row) = app.rows.get(selected) {
        let style = if is_bad(row) {
            look.bad()
        } else {
            Style::new()
        };
        put(screen, of, selected_line(row), style);
    }
    let keys = "Enter this rank  s order  arrows the row  ? keys  q quit; programs continue";
    put(screen, foot, keys.into(), look.faint());
}

fn is_bad(row: &FolderRow) -> bool {
    !row.differs.is_empty()
}

fn aligned(column: &Column, text: &str) -> String {
    let width = column.width;
    let text: String = text.chars().take(width).collect();
    match column.is_text {
        true => format!("{text:<width$} "),
        false => format!("{text:>width$} "),
    }
}

fn head_line(folder: &Folder, app: &FolderApp, look: Look) -> String {
    if let Some(error) = folder.error() {
        return format!("{}: {error}", folder.path().display());
    }
    let states = |is: fn(&State) -> bool| {
        let of = app.rows.iter().filter_map(|row| row.now.as_ref());
        of.filter(|now| is(&now.state)).count()
    };
    let mut parts = vec![many(app.rows.len() as u64, "capture", "captures")];
    for (number, word) in [
        (states(|of| matches!(of, State::Running)), "running"),
        (
            states(|of| matches!(of, State::CatchingUp(..))),
            "being read",
        ),
        (states(|of| matches!(of, State::Ended(_))), "ended"),
        (states(|of| matches!(of, State::Killed(_))), "killed"),
        (states(|of| matches!(of, State::Stopped(_))), "stopped"),
        (app.rows.iter().filter(|row| is_bad(row)).count(), "differ"),
    ] {
        if number > 0 {
            parts.push(format!("{number} {word}"));
        }
    }
    if folder.beyond() > 0 {
        parts.push(format!("{} more are not followed", folder.beyond()));
    }
    parts.push(format!("by {}", app.sort.word()));
    parts.join(look.dot())
}

fn row_line(row: &FolderRow, columns: &[Column], look: Look) -> String {
    let mark = if is_bad(row) { '!' } else { ' ' };
    let Some(now) = &row.now else {
        return format!("{mark}{:>5} {}", "-", file_name(row));
    };
    let cells = columns
        .iter()
        .map(|column| aligned(column, &(column.cell)(now, look)));
    format!("{mark}{}", cells.collect::<String>())
}

fn file_name(row: &FolderRow) -> String {
    let name = row.file.file_name().unwrap_or(row.file.as_os_str());
    name.to_string_lossy().into_owned()
}

/// The line about the selected rank: why it stopped, how it differs, and its capture.
fn selected_line(row: &FolderRow) -> String {
    if let Some(State::Stopped(why)) = row.now.as_ref().map(|now| &now.state) {
        return format!("{}: {why}", file_name(row));
    }
    let Some(of) = row.differs.first() else {
        return file_name(row);
    };
    let word = if of.off_bytes < 0 { "less" } else { "more" };
    let more = match row.differs.len() {
        1 => String::new(),
        others => format!(", and {} more", others - 1),
    };
    format!(
        "! {}: {} {word} than the median of {} peers{more}",
        of.metric.word(),
        bytes(of.off_bytes.unsigned_abs()),
        of.peer_count
    )
}

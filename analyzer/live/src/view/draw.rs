//! Draws the view.

use gpumem_analyzer::account::many;
use gpumem_analyzer::ranks::Part;
use gpumem_analyzer::render::{bytes, count, time};
use gpumem_capture::{DeviceOrdinal, Level};
use ratatui::Frame as Screen;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use crate::ask::{By, Moment};
use crate::frame::{DeviceNow, Frame, State};

use super::app::{App, Mode};
use super::chart::Chart;
use super::help::KEYS;
use super::style::Look;

/// The least that the view needs.
const LEAST: (u16, u16) = (40, 12);

/// Draws all of it.
pub fn draw(app: &mut App, look: Look, screen: &mut Screen<'_>) {
    let area = screen.area();
    if area.width < LEAST.0 || area.height < LEAST.1 {
        let text = format!("needs {} columns and {} lines", LEAST.0, LEAST.1);
        screen.render_widget(Paragraph::new(text), area);
        return;
    }
    let Some(frame) = app.frame.clone() else {
        screen.render_widget(Paragraph::new("reading the capture"), area);
        return;
    };
    let devices = frame.devices.len().clamp(1, 8) as u16;
    let chart = (area.height / 4).clamp(3, 12);
    let rows = [
        Constraint::Length(1),
        Constraint::Length(devices),
        Constraint::Length(chart),
        Constraint::Length(1),
        Constraint::Min(2),
        Constraint::Length(1),
    ];
    let [head, on, course, of, table, foot] = Layout::vertical(rows).areas(area);
    line(screen, head, head_line(&frame, app, look));
    for (device, at) in frame.devices.iter().zip(on.rows()) {
        line(screen, at, device_line(device, look, at.width));
    }
    draw_chart(screen, course, &frame, app, look);
    line(screen, of, table_line(&frame, app, look));
    match app.mode {
        Mode::Help => draw_help(screen, table, look),
        Mode::Failures => draw_failures(screen, table, &frame, look),
        Mode::Table | Mode::Filter => draw_table(screen, table, &frame, app, look),
    }
    line(screen, foot, foot_line(&frame, app, look));
}

fn line(screen: &mut Screen<'_>, at: Rect, line: Line<'_>) {
    screen.render_widget(Paragraph::new(line), at);
}

/// How the program does, and who it is: the first is never cut off.
fn head_line(frame: &Frame, app: &App, look: Look) -> Line<'static> {
    let mut parts = vec![match &frame.state {
        State::CatchingUp(at, of) => Span::styled(
            format!("reading {} of {}", bytes(*at), bytes(*of)),
            look.strong(),
        ),
        State::Running => Span::styled("running", look.strong()),
        State::Ended(at) => Span::styled(format!("ended at {}", time(*at)), look.strong()),
        State::Killed(at) => Span::styled(
            format!("ended without saying so, after {}", time(*at)),
            look.bad(),
        ),
        State::Stopped(why) => Span::styled(format!("stopped: {why}"), look.bad()),
    }];
    if app.is_paused {
        parts.push(Span::styled(" (stopped here, Space goes on)", look.bad()));
    }
    let event = format!("event {}", count(frame.seq.0));
    let mut more = vec![match frame.state {
        // Their time is said.
        State::Ended(_) | State::Killed(_) => event,
        _ => format!("{}, {event}", time(frame.time)),
    }];
    if frame.steps > 0 {
        more.push(format!("{} steps", count(frame.steps)));
    }
    if let Some(phase) = frame.at.as_ref().and_then(|at| at.phase) {
        more.push(phase.word().to_owned());
    }
    more.push(format!("pid {}", frame.pid));
    more.extend(frame.command.clone());
    let dot = look.dot();
    parts.push(Span::raw(format!("{dot}{}", more.join(dot))));
    Line::from(parts)
}

fn device_line(on: &DeviceNow, look: Look, width: u16) -> Line<'static> {
    let process = match on.now.physical {
        0 => on.now.driver.max(on.now.reserved.unwrap_or(0)),
        physical => physical,
    };
    let of = on.total.map(|total| format!(" of {}", bytes(total)));
    let mut said = vec![format!(
        "{} in all{}",
        bytes(process),
        of.unwrap_or_default()
    )];
    said.push(format!("tensors {}", bytes(on.now.tensor)));
    let peak = on.at_peak.tensor.max(on.at_peak.driver);
    said.push(format!("peak {}", bytes(peak)));
    let reserved = on.now.reserved;
    said.extend(reserved.map(|of| format!("PyTorch holds {}", bytes(of))));
    let nvml = on.reading.and_then(|reading| reading.process);
    said.extend(nvml.map(|of| format!("NVML {}", bytes(of))));
    let mut text = String::new();
    for part in said {
        // What has no room is left out as a whole.
        if text.chars().count() + part.chars().count() + 9 < usize::from(width) {
            text.push_str(if text.is_empty() { "  " } else { ", " });
            text.push_str(&part);
        }
    }
    Line::from(vec![
        Span::styled(format!("GPU {}", on.device.0), look.strong()),
        Span::raw(text),
    ])
}

fn draw_chart(screen: &mut Screen<'_>, area: Rect, frame: &Frame, app: &App, look: Look) {
    let shown = app.ask.device.or(frame.devices.first().map(|on| on.device));
    let course = frame
        .course
        .iter()
        .find(|(device, _)| Some(*device) == shown);
    let Some((device, course)) = course else {
        return;
    };
    let chart = Chart::of(course, usize::from(area.width));
    for row in 0..area.height {
        let cells =
            (0..chart.columns.len()).map(|column| match chart.cell(column, row, area.height) {
                None => Span::raw(" "),
                Some(part) => {
                    let (style, fill) = look.part(part);
                    Span::styled(fill.to_string(), style)
                }
            });
        let at = Rect {
            y: area.y + row,
            height: 1,
            ..area
        };
        line(screen, at, Line::from(cells.collect::<Vec<_>>()));
    }
    let mut key = vec![Span::styled(
        format!("{} ", bytes(chart.most)),
        look.strong(),
    )];
    for part in Part::ALL {
        let (style, fill) = look.part(part);
        key.push(Span::styled(fill.to_string(), style));
        key.push(Span::raw(format!(" {} ", part.word())));
    }
    key.push(Span::raw(format!("on GPU {}", device.0)));
    let line = Line::from(key);
    let width = (line.width() as u16).min(area.width);
    let corner = Rect {
        x: area.right() - width,
        width,
        height: 1,
        ..area
    };
    screen.render_widget(Paragraph::new(line), corner);
}

fn level_word(level: Level) -> &'static str {
    match level {
        Level::TENSOR => "tensors",
        Level::DRIVER => "memory from CUDA",
        Level::HOST => "pinned host memory",
        _ => "what the card gave",
    }
}

fn table_line(frame: &Frame, app: &App, look: Look) -> Line<'static> {
    let by = match frame.ask.by {
        By::Line => "Lines",
        By::Category => "Categories",
        By::Module => "Modules",
    };
    let when = match frame.ask.moment {
        Moment::Now => "now",
        Moment::Peak => "at the peak",
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
    parts.push(Span::styled(
        format!(", by {}", app.sort.word()),
        look.faint(),
    ));
    if app.mode == Mode::Filter || !app.filter.is_empty() {
        let end = if app.mode == Mode::Filter { "_" } else { "" };
        parts.push(Span::raw(format!("  /{}{end}", app.filter)));
    }
    Line::from(parts)
}

fn draw_table(screen: &mut Screen<'_>, area: Rect, frame: &Frame, app: &mut App, look: Look) {
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
    let rest = usize::from(area.width).saturating_sub(if many { 34 } else { 27 });
    let name_width = name_width.min(rest * 2 / 3).max(10);
    for ((place, row), at) in shown.into_iter().zip(area.rows()) {
        let device = match (many, row.device) {
            (false, _) => String::new(),
            (true, Some(device)) => format!("GPU {device:<3}"),
            (true, None) => " ".repeat(7),
        };
        let figures = format!(
            "{:>9} {:>3} % {:>7}  {device}",
            bytes(row.bytes),
            row.share,
            count(row.blocks)
        );
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
            true => "  nothing is held".to_owned(),
            false => "  no row contains that".to_owned(),
        };
        line(
            screen,
            Rect { height: 1, ..area },
            Line::styled(text, look.faint()),
        );
    }
}

/// The end of a name tells more than its beginning: of a file its own name and the line.
fn end_of(name: &str, width: usize, look: Look) -> String {
    let length = name.chars().count();
    if length <= width {
        return name.to_owned();
    }
    let mark = look.either('…', '~');
    let end: String = name.chars().skip(length - width + 1).collect();
    format!("{mark}{end}")
}

fn draw_failures(screen: &mut Screen<'_>, area: Rect, frame: &Frame, look: Look) {
    let mut lines = vec![Line::styled(
        format!(
            "{} found no memory",
            many(frame.failure_count, "allocation", "allocations")
        ),
        look.strong(),
    )];
    for of in &frame.failures {
        let text = format!(
            "  {}, event {}: {} on GPU {}, {}",
            time(of.time),
            count(of.seq.0),
            bytes(of.bytes),
            of.device.0,
            match of.is_exception {
                true => "the program was told",
                false => "answered by the framework's allocator",
            }
        );
        let style = match of.is_exception {
            true => look.bad(),
            false => ratatui::style::Style::new(),
        };
        lines.push(Line::styled(text, style));
    }
    screen.render_widget(Paragraph::new(lines), area);
}

fn draw_help(screen: &mut Screen<'_>, area: Rect, look: Look) {
    let lines: Vec<_> = KEYS
        .iter()
        .map(|(key, does)| {
            Line::from(vec![
                Span::styled(format!("{key:>10}  "), look.strong()),
                Span::raw(*does),
            ])
        })
        .collect();
    screen.render_widget(Paragraph::new(lines), area);
}

fn foot_line(frame: &Frame, app: &App, look: Look) -> Line<'static> {
    let told = frame.failures.iter().find(|of| of.is_exception);
    if let Some(of) = told.filter(|_| app.mode != Mode::Failures) {
        let text = format!(
            "OUT OF MEMORY at {}: {} on GPU {} (f: failures)",
            time(of.time),
            bytes(of.bytes),
            of.device.0
        );
        return Line::styled(text, look.bad());
    }
    let text = match app.mode {
        Mode::Help | Mode::Failures => "Esc back  q leave",
        Mode::Filter => "Enter keep  Esc all rows",
        Mode::Table => {
            "Tab rows  l level  p peak  s order  / filter  Space stop  f failures  ? keys  q"
        }
    };
    Line::styled(text, look.faint())
}

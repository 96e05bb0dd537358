//! Draws the view.

mod course;
mod head;
mod line;
mod pages;
mod table;

use gpumem_analyzer::render::{bytes, time};
use gpumem_capture::Level;
use ratatui::Frame as Screen;
use ratatui::layout::{Constraint, Layout};
use ratatui::text::Line;
use ratatui::widgets::Paragraph;

use crate::frames::{Failure, Frame};

use super::app::{App, Mode};
use super::help::KEYS;
use super::style::Look;
use course::draw_chart;
use head::{device_line, head_line};
use line::line;
pub(super) use pages::draw_help;
use pages::{draw_failures, draw_page, page_line};
use table::{draw_table, table_line};

/// The smallest screen of the view.
const LEAST: (u16, u16) = (40, 12);

/// Draws the whole view.
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
    app.columns = area.width;
    if app.mode == Mode::Help {
        let rows = [
            Constraint::Length(1),
            Constraint::Min(2),
            Constraint::Length(1),
        ];
        let [head, keys, foot] = Layout::vertical(rows).areas(area);
        line(screen, head, head_line(&frame, app, look));
        draw_help(screen, keys, &KEYS, look);
        line(screen, foot, foot_line(&frame, app, look));
        return;
    }
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
    match app.mode {
        Mode::Stacks | Mode::Account => {
            draw_page(screen, table, app, look);
            line(screen, of, page_line(app, look));
        }
        _ => line(screen, of, table_line(&frame, app, look)),
    }
    match app.mode {
        Mode::Failures => {
            let newest = app.newest.as_deref().unwrap_or(&frame);
            draw_failures(screen, table, newest, app, look);
        }
        Mode::Table | Mode::Filter => draw_table(screen, table, &frame, app, look),
        Mode::Stacks | Mode::Account | Mode::Help => {}
    }
    line(screen, foot, foot_line(&frame, app, look));
}

/// The newest failure that the program saw. A framework's allocator may resolve a refusal; without a framework, each
/// refusal reaches the program.
fn told(newest: &Frame) -> Option<&Failure> {
    let has_framework = newest.peaks.iter().any(|of| of.level == Level::TENSOR);
    let mut all = newest.failures.iter();
    all.find(|of| of.is_exception || !has_framework)
}

fn foot_line(frame: &Frame, app: &App, look: Look) -> Line<'static> {
    if let Some(message) = &app.message {
        return Line::styled(message.clone(), look.strong());
    }
    let newest = app.newest.as_deref().unwrap_or(frame);
    if let Some(of) = told(newest).filter(|_| matches!(app.mode, Mode::Table) && app.spot.is_none())
    {
        let text = format!(
            "OUT OF MEMORY at {}: {} on GPU {} (f: failures)",
            time(of.time),
            bytes(of.bytes),
            of.device.0
        );
        return Line::styled(text, look.bad());
    }
    let text = match (app.mode, &app.spot) {
        (Mode::Help, _) => "Esc back  q quit",
        (Mode::Stacks | Mode::Account, _) => "Esc back  Up Down scroll  [ ] in time  n now  q quit",
        (Mode::Failures, _) => "Esc back  Up Down choose  Enter go there  q quit",
        (Mode::Filter, _) => "Enter keep  Esc all rows",
        (Mode::Table, Some(_)) => {
            "[ ] in time  p peak  o failure  n now  Enter stacks  a account  ? keys  q"
        }
        (Mode::Table, None) => {
            "Enter stacks  a account  [ ] back in time  p peak  f failures  ? keys  q"
        }
    };
    Line::styled(text, look.faint())
}

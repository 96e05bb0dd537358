//! Draws pages, which replace the table.

use gpumem_analyzer::account::many;
use gpumem_analyzer::render::{bytes, count, time};
use ratatui::Frame as Screen;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use crate::frames::{Failure, Frame, Kind};

use super::super::app::App;
use super::super::style::Look;
use super::line::line;

/// The most failures that are listed if the causes also need space.
const FAILURES: usize = 8;

/// The line above a page.
pub(super) fn page_line(app: &App, look: Look) -> Line<'static> {
    let Some(page) = app.page.as_ref().filter(|_| !app.is_waiting()) else {
        return Line::styled(reading(app), look.strong());
    };
    let (lines, fit) = (page.lines.len(), app.page_fit);
    let mut parts = vec![Span::styled(page.title.clone(), look.strong())];
    if lines > fit {
        let last = (app.page_first + fit).min(lines);
        let text = format!(", lines {} to {last} of {lines}", app.page_first + 1);
        parts.push(Span::styled(text, look.faint()));
    }
    Line::from(parts)
}

fn reading(app: &App) -> String {
    match app.progress {
        Some((at, of)) => {
            let percent = u128::from(at) * 100 / u128::from(of.max(1));
            format!("reading the capture: {percent} %")
        }
        None => "reading the capture".into(),
    }
}

/// The visible lines of a page.
pub(super) fn draw_page(screen: &mut Screen<'_>, area: Rect, app: &mut App, look: Look) {
    app.page_fit = usize::from(area.height);
    app.scroll(app.page_first);
    let Some(page) = app.page.as_ref().filter(|_| !app.is_waiting()) else {
        return;
    };
    let lines = page.lines.iter().skip(app.page_first);
    for ((kind, text), at) in lines.zip(area.rows()) {
        line(screen, at, Line::styled(text.clone(), style(*kind, look)));
    }
}

fn style(kind: Kind, look: Look) -> Style {
    match kind {
        Kind::Plain => Style::new(),
        Kind::Strong => look.strong(),
        Kind::Faint => look.faint(),
        Kind::Marked => look.selected(),
    }
}

/// Failures, and the cause of the selected one.
pub(super) fn draw_failures(
    screen: &mut Screen<'_>,
    area: Rect,
    frame: &Frame,
    app: &App,
    look: Look,
) {
    let count = many(frame.failure_count, "allocation", "allocations");
    let mut lines = vec![Line::styled(
        format!("{count} failed because memory ran out"),
        look.strong(),
    )];
    let fit = usize::from(area.height / 2).clamp(1, FAILURES);
    let first = (app.failure + 1).saturating_sub(fit);
    let shown = frame.failures.iter().enumerate().skip(first).take(fit);
    for (place, of) in shown {
        let style = match (place == app.failure, of.is_exception) {
            (true, _) => look.selected(),
            (false, true) => look.bad(),
            (false, false) => Style::new(),
        };
        lines.push(Line::styled(failure(of), style));
    }
    if app.is_waiting() {
        lines.push(Line::styled(reading(app), look.faint()));
    } else if let Some(page) = &app.page {
        lines.push(Line::default());
        let of = page.lines.iter();
        lines.extend(of.map(|(kind, text)| Line::styled(text.clone(), style(*kind, look))));
    }
    screen.render_widget(Paragraph::new(lines), area);
}

fn failure(of: &Failure) -> String {
    format!(
        "  {}, event {}: {} on GPU {}, {}",
        time(of.time),
        count(of.seq.0),
        bytes(of.bytes),
        of.device.0,
        match of.is_exception {
            true => "exception in the program",
            false => "refused by the driver",
        }
    )
}

/// Keys, and what each does.
pub(in super::super) fn draw_help(
    screen: &mut Screen<'_>,
    area: Rect,
    keys: &[(&str, &'static str)],
    look: Look,
) {
    let lines: Vec<_> = keys
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

//! Draws the state of the program, the shown point in time, and each device's figures at it.

use gpumem_analyzer::account::many;
use gpumem_analyzer::render::{bytes, count, time};
use ratatui::text::{Line, Span};

use crate::frames::{DeviceNow, Frame, State};

use super::super::app::App;
use super::super::spot::Spot;
use super::super::style::Look;

/// The state of the program and its identity; the state is never cut off.
pub(super) fn head_line(frame: &Frame, app: &App, look: Look) -> Line<'static> {
    let newest = app.newest.as_deref().unwrap_or(frame);
    let dot = look.dot();
    let mut parts = Vec::new();
    if let Some(spot) = &app.spot {
        parts.push(Span::styled(then(frame, app, spot), look.strong()));
        parts.push(Span::raw(dot));
    }
    parts.push(state(newest, look));
    if app.is_paused && app.spot.is_none() {
        let text = " (paused, Space resumes)";
        parts.push(Span::styled(text, look.bad()));
    }
    let event = format!("event {}", count(frame.seq.0));
    let mut more = Vec::new();
    match (&app.spot, &newest.state) {
        (Some(_), State::Running | State::CatchingUp(..)) => {
            more.push(format!("now {}", time(newest.time)));
        }
        (Some(_), _) => {}
        // Their time is shown already.
        (None, State::Ended(_) | State::Killed(_)) => more.push(event),
        (None, _) => more.push(format!("{}, {event}", time(frame.time))),
    }
    if frame.steps > 0 {
        let rate = frame.pace.and_then(|pace| pace.per_second());
        let rate = rate.map(|rate| match rate < 10.0 {
            true => format!(", {rate:.2}/s"),
            false => format!(", {rate:.0}/s"),
        });
        let steps = many(frame.steps, "step", "steps");
        more.push(format!("{steps}{}", rate.unwrap_or_default()));
    }
    if let Some(phase) = frame.at.as_ref().and_then(|at| at.phase) {
        more.push(phase.word().to_owned());
    }
    more.push(format!("pid {}", frame.pid));
    more.extend(frame.command.clone());
    let separator = if more.is_empty() { "" } else { dot };
    parts.push(Span::raw(format!("{separator}{}", more.join(dot))));
    Line::from(parts)
}

/// The shown point in time, or the progress of reading it.
fn then(frame: &Frame, app: &App, spot: &Spot) -> String {
    let what = spot.what.as_deref().map(|what| format!("{what}, "));
    let what = what.unwrap_or_default();
    if !app.is_waiting() {
        let event = count(frame.seq.0);
        return format!("at {what}{}, event {event}", time(spot.time));
    }
    let percent = app
        .progress
        .map_or(0, |(at, of)| u128::from(at) * 100 / u128::from(of.max(1)));
    format!("reading {what}{}: {percent} %", time(spot.time))
}

fn state(frame: &Frame, look: Look) -> Span<'static> {
    match &frame.state {
        State::CatchingUp(at, of) => Span::styled(
            format!("reading {} of {}", bytes(*at), bytes(*of)),
            look.strong(),
        ),
        State::Running => Span::styled("running", look.strong()),
        State::Ended(at) => Span::styled(format!("ended at {}", time(*at)), look.strong()),
        State::Killed(at) => Span::styled(
            format!("ended without its exit handlers, after {}", time(*at)),
            look.bad(),
        ),
        State::Stopped(why) => Span::styled(format!("stopped: {why}"), look.bad()),
    }
}

pub(super) fn device_line(on: &DeviceNow, look: Look, width: u16) -> Line<'static> {
    let of = on.total.map(|total| format!(" of {}", bytes(total)));
    let mut said = vec![format!(
        "{} in all{}",
        bytes(on.process()),
        of.unwrap_or_default()
    )];
    said.push(format!("tensors {}", bytes(on.now.tensor)));
    // The peak is that of the tensors, or without tensors that of the driver level.
    let peak = match on.at_peak.tensor {
        0 => on.at_peak.driver,
        tensors => tensors,
    };
    said.push(format!("peak {}", bytes(peak)));
    let reserved = on.now.reserved;
    said.extend(reserved.map(|of| format!("PyTorch holds {}", bytes(of))));
    said.extend(on.nvml().map(|of| format!("NVML {}", bytes(of))));
    let mut text = String::new();
    for part in said {
        // A part that does not fit is omitted completely.
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

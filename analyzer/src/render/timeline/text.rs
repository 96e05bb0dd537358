//! The timeline as text in the terminal's width.

use super::columns::{Span, columns};
use super::phases::{by_column, merged};
use super::scale::{axis_ticks, tick_text};
use super::{failures_line, folds_line, peak_line, retries_line, title};
use crate::render::{Align, Style, Table, Terminal, bytes};
use crate::views::{Band, BandKind, DeviceTimeline, LaneKind, LaneSpan, Timeline, TimelinePoint};

/// Columns if the terminal's width is not known.
const WIDTH: usize = 100;
/// Columns of the axis' labels.
const AXIS: usize = 10;
/// Rows of a chart.
const ROWS: usize = 12;
const EIGHTHS: [char; 8] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇'];

/// A chart of each device, with a table of its bands.
pub fn timeline_text(timeline: &Timeline, terminal: Terminal) -> String {
    let width = terminal.width.unwrap_or(WIDTH).clamp(40, 400);
    let span = &Span {
        axis: timeline.axis(),
        columns: width - AXIS - 1,
    };
    let mut out = String::new();
    for (index, device) in timeline.devices.iter().enumerate() {
        out.push_str(if index > 0 { "\n" } else { "" });
        out.push_str(&terminal.paint(Style::Strong, &title(device)));
        out.push('\n');
        if let Some(peak) = &device.peak {
            out.push_str(&format!("  {}\n", peak_line(device, peak)));
        }
        if let Some(line) = failures_line(timeline, device) {
            out.push_str(&format!("  {}\n", terminal.paint(Style::Bad, &line)));
        }
        if let Some(line) = retries_line(timeline, device) {
            out.push_str(&format!("  {line}\n"));
        }
        if !device.bands.is_empty() {
            chart(timeline, device, span, &mut out);
        }
        out.push_str(&table(device, terminal));
    }
    out
}

/// Whether a band is drawn as `█`: tensors, or all bands of a level. These are the lowest bands.
fn is_solid(band: &Band) -> bool {
    matches!(band.kind, BandKind::Tensors | BandKind::Level)
}

/// `█` for bands that [`is_solid`] selects, `░` for those above them.
fn chart(timeline: &Timeline, device: &DeviceTimeline, span: &Span, out: &mut String) {
    let level = device.bands.iter().any(|band| band.kind == BandKind::Level);
    let columns = columns(device, span, level);
    let most = columns.iter().flatten().map(|point| point.sum()).max();
    let most = most.unwrap_or(0).max(1);
    // Eighths of a row.
    let high = |bytes: u64| {
        let eighths = u128::from(bytes) * (ROWS * 8) as u128 / u128::from(most);
        (eighths as usize).min(ROWS * 8)
    };
    let solid = |point: &TimelinePoint| -> u64 {
        let bands = device.bands.iter().zip(&point.bytes);
        let solid = bands.filter(|(band, _)| is_solid(band));
        solid.map(|(_, bytes)| bytes).sum()
    };
    let mut folded = vec![false; span.columns];
    for (from, to) in span.folds() {
        folded[from..=to].fill(true);
    }
    for row in (0..ROWS).rev() {
        let label = match row + 1 {
            ROWS => bytes(most),
            half if half == ROWS / 2 => bytes(most / 2),
            _ => String::new(),
        };
        let mut line = format!("{label:>AXIS$}│");
        for (point, folded) in columns.iter().zip(&folded) {
            if *folded {
                line.push('┊');
                continue;
            }
            let (low, all) = point.map_or((0, 0), |point| (high(solid(point)), high(point.sum())));
            line.push(
                match (low.saturating_sub(row * 8), all.saturating_sub(row * 8)) {
                    (8.., _) => '█',
                    (0, 4..) => '░',
                    (0, _) => ' ',
                    (part, _) => EIGHTHS[part],
                },
            );
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    let line = folded.iter().map(|folded| if *folded { '≈' } else { '─' });
    let line: String = line.collect();
    out.push_str(&format!("{:>AXIS$}└{line}\n", "0 B"));
    let marks = marks(timeline, device, span);
    if marks.contains(|c: char| c != ' ') {
        out.push_str(&format!("{:>AXIS$} {}\n", "", marks.trim_end()));
    }
    if timeline.trains {
        out.push_str(&format!("{:>AXIS$} {}\n", "phases", phases(timeline, span)));
    }
    if let Some(ends) = step_ends(timeline, span) {
        out.push_str(&format!("{:>AXIS$} {ends}\n", "steps end"));
    }
    out.push_str(&times(span));
    let said = [folds_line(timeline), merged(timeline)];
    for line in said.into_iter().flatten() {
        for line in textwrap::wrap(&line, span.columns + AXIS - 1) {
            out.push_str(&format!("  {line}\n"));
        }
    }
}

/// The peak and the failures.
fn marks(timeline: &Timeline, device: &DeviceTimeline, span: &Span) -> String {
    let mut row = vec![' '; span.columns];
    let peak = device.peak.as_ref();
    if let Some(peak) = peak.filter(|peak| span.axis.has(peak.time_ns)) {
        row[span.column(peak.time_ns)] = '▲';
    }
    let failures = timeline.failures.iter();
    for failure in failures.filter(|failure| failure.device == device.device) {
        row[span.column(failure.time_ns)] = '✕';
    }
    row.into_iter().collect()
}

/// The phase that took most of each column's time: `b`ackward, `o`ptimizer, `z`ero_grad, `f`orward.
fn phases(timeline: &Timeline, span: &Span) -> String {
    let (mut time, mut end) = (vec![[0_u64; 5]; span.columns], span.columns);
    match timeline.lane(LaneKind::Phases) {
        Some(lane) if lane.left_out == 0 => {
            for of in &lane.spans {
                spend(of, span, &mut time);
            }
            let steps = timeline.lane(LaneKind::Steps);
            let ends = lane.spans.iter();
            let ends = ends.chain(steps.into_iter().flat_map(|lane| &lane.spans));
            // The forward is not known after the last phase.
            end = ends.map(|of| span.column(of.to_ns) + 1).max().unwrap_or(0);
        }
        _ => time = by_column(&timeline.course, span),
    }
    let width = span.width();
    let word = |(at, column): (usize, &[u64; 5])| {
        let [backward, optimizer, zero, other, whole] = *column;
        let marked = [backward, optimizer, zero, other].iter().sum();
        let forward = whole.max(width).saturating_sub(marked);
        let parts = [
            (forward, if at < end { 'f' } else { ' ' }),
            (other, '?'),
            (zero, 'z'),
            (optimizer, 'o'),
            (backward, 'b'),
        ];
        let most = parts.into_iter().max_by_key(|(time, _)| *time);
        most.map_or(' ', |(_, letter)| letter)
    };
    let all: String = time.iter().enumerate().map(word).collect();
    all.trim_end().to_owned()
}

/// Adds the time of a span in each column to its phase.
fn spend(of: &LaneSpan, span: &Span, time: &mut [[u64; 5]]) {
    let phase = match of.label.as_str() {
        "backward" => 0,
        "optimizer" => 1,
        "zero_grad" => 2,
        _ => 3,
    };
    let columns = span.columns as f64;
    let [first, last] = [of.from_ns, of.to_ns].map(|ns| span.column(ns));
    for (column, time) in time.iter_mut().enumerate().take(last + 1).skip(first) {
        let begin = span.axis.time(column as f64 / columns).max(of.from_ns);
        let end = span.axis.time((column + 1) as f64 / columns).min(of.to_ns);
        time[phase] += end.saturating_sub(begin);
    }
}

/// The ends of steps.
fn step_ends(timeline: &Timeline, span: &Span) -> Option<String> {
    let steps: Vec<(u64, String)> = match timeline.lane(LaneKind::Steps)? {
        lane if lane.left_out == 0 => {
            let number = |of: &LaneSpan| of.label.trim_start_matches("step ").to_owned();
            lane.spans.iter().map(|of| (of.to_ns, number(of))).collect()
        }
        _ => {
            let course = timeline.course.iter();
            let ends = course.filter_map(|of| Some((of.step_ns?, of.step?.to_string())));
            ends.collect()
        }
    };
    let mut line = String::new();
    for (time, step) in steps.into_iter().filter(|(time, _)| span.axis.has(*time)) {
        place(&mut line, span, span.column(time), &format!("╵{step}"), 0);
    }
    (!line.is_empty()).then_some(line)
}

/// Writes a label at a column, if there is room.
fn place(line: &mut String, span: &Span, at: usize, label: &str, apart: usize) {
    let taken = line.chars().count();
    let fits = at + label.chars().count() <= span.columns;
    if fits && (at >= taken + apart || taken == 0) {
        line.push_str(&" ".repeat(at - taken));
        line.push_str(label);
    }
}

/// Times below the chart, without those that do not fit.
fn times(span: &Span) -> String {
    let (ticks, step) = axis_ticks(&span.axis);
    let mut line = String::new();
    for tick in ticks {
        let label = format!("╵{}", tick_text(tick, step));
        place(&mut line, span, span.column(tick), &label, 1);
    }
    format!("{}{line}\n", " ".repeat(AXIS + 1))
}

/// The bytes of each band at the peak and at the end. The rows sum to the last one.
fn table(device: &DeviceTimeline, terminal: Terminal) -> String {
    let right = Align::Right;
    let mut table = Table::new(&[Align::Left, right, right]).elastic(&[0]);
    table
        .row(["", "at the peak", "at the end"])
        .style_row(Style::Faint);
    let (peak, end) = (device.peak.as_ref(), device.end());
    let at = |point: Option<&TimelinePoint>, index: usize| {
        let bytes = point.and_then(|point| point.bytes.get(index)).copied();
        bytes.unwrap_or(0)
    };
    for (index, band) in device.bands.iter().enumerate() {
        let sign = if is_solid(band) { '█' } else { '░' };
        let name = format!("{sign} {}", band.name);
        table.row([&name, &bytes(at(peak, index)), &bytes(at(end, index))]);
    }
    let sum = |point: Option<&TimelinePoint>| bytes(point.map_or(0, TimelinePoint::sum));
    if device.bands.len() > 1 {
        table.row(["  together", &sum(peak), &sum(end)]);
    }
    let host = device.peaks.iter().find(|peak| peak.level == "host");
    if let Some(host) = host.filter(|_| !device.bands.iter().any(|b| b.kind == BandKind::Level)) {
        let now = end.map_or(0, |end| end.host_bytes);
        let name = format!("  pinned host memory (at most {})", bytes(host.bytes));
        let then = peak.map_or(0, |peak| peak.host_bytes);
        table.row([&name, &bytes(then), &bytes(now)]);
    }
    table.render(terminal, 2)
}

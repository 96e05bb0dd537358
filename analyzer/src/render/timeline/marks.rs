//! Points in time in a chart: the peak and failures.

use std::fmt::Write as _;

use gpumem_capture::Nanos;

use super::chart::Chart;
use super::layout::{LARGE, RIGHT, exact, title};
use crate::render::{count, moment};
use crate::views::TimelineFailure;

/// Failures at smaller distances are one mark.
const APART: f64 = 9.0;
/// How many of them the title names.
const NAMED: usize = 8;

fn of<'a>(chart: &Chart<'a>) -> impl Iterator<Item = &'a TimelineFailure> {
    let device = chart.device.device;
    let failures = chart.timeline.failures.iter();
    failures.filter(move |failure| failure.device == device)
}

/// The room above the chart that they need.
pub(super) fn above(chart: &Chart<'_>) -> usize {
    match of(chart).next() {
        Some(_) if !chart.device.bands.is_empty() => 24,
        _ => 4,
    }
}

/// Draws them.
pub(super) fn draw(chart: &Chart<'_>, top: usize, bottom: usize, out: &mut String) {
    let peak = chart.device.peak.as_ref();
    if let Some(peak) = peak.filter(|peak| chart.span.axis.has(peak.time_ns)) {
        let (x, y) = (chart.x(peak.time_ns), chart.y(peak.sum(), bottom));
        let mut said = chart.said(peak);
        said[0] = format!("the peak: {}", said[0]);
        let _ = writeln!(
            out,
            "<path class=\"axis at-peak\" d=\"M{x:.1} {top}V{bottom}\"/><circle cx=\"{x:.1}\" \
             cy=\"{y:.1}\" r=\"5\" class=\"back axis ring\">{}</circle>",
            title(&said)
        );
    }
    failures(chart, top, out);
}

/// A triangle at the upper edge of the chart for each failure, or for several adjacent ones.
fn failures(chart: &Chart<'_>, top: usize, out: &mut String) {
    let mut groups: Vec<(f64, Vec<&TimelineFailure>)> = Vec::new();
    for failure in of(chart) {
        let x = chart.x(failure.time_ns);
        match groups.last_mut() {
            Some((at, group)) if x - *at < APART => group.push(failure),
            _ => groups.push((x, vec![failure])),
        }
    }
    for (x, group) in groups {
        let mut said: Vec<String> = group.iter().take(NAMED).map(|of| line(of)).collect();
        let more = group.len().saturating_sub(NAMED);
        if more > 0 {
            said.push(format!("and {} more", count(more as u64)));
        }
        let (left, right, upper, lower) = (x - 6.0, x + 6.0, top - 12, top - 1);
        let _ = writeln!(
            out,
            "<path class=\"failed\" d=\"M{left:.1} {upper}H{right:.1}L{x:.1} {lower}Z\">{}</path>",
            title(&said)
        );
        if group.len() > 1 {
            let label = format!("×{}", count(group.len() as u64));
            let wide = label.chars().count() as f64 * LARGE;
            let (at, class) = match x + 9.0 + wide < RIGHT as f64 {
                true => (x + 9.0, "o"),
                false => (x - 9.0, "e o"),
            };
            let y = top - 2;
            let _ = writeln!(
                out,
                "<text x=\"{at:.1}\" y=\"{y}\" class=\"{class}\">{label}</text>"
            );
        }
    }
}

fn line(failure: &TimelineFailure) -> String {
    let at = moment(failure.seq, Nanos(failure.time_ns));
    format!("out of memory at {at}: {} requested", exact(failure.bytes))
}

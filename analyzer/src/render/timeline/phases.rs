//! The lane of phases, and of the ends of steps if there are many.

use std::fmt::Write as _;

use super::columns::Span;
use super::layout::{CHART, LARGE, LEFT, area, title};
use super::scale::{length_text, step_stride};
use crate::render::count;
use crate::units::time;
use crate::views::{CourseBucket, Lane, LaneKind, LaneSpan, Timeline};
use gpumem_capture::Nanos;

const PHASES: [(&str, &str); 5] = [
    ("backward", "backward"),
    ("optimizer", "optimizer"),
    ("zero_grad", "zero_grad"),
    ("another-phase", "another phase"),
    ("forward", "forward"),
];

/// The class of a phase.
pub(super) fn phase_class(label: &str) -> &'static str {
    let known = PHASES.iter().find(|(_, name)| *name == label);
    known.map_or("another-phase", |(class, _)| class)
}

/// Each phase at its time; or shares of time, if only these are known.
pub(super) fn draw(timeline: &Timeline, span: &Span, top: usize, high: usize, out: &mut String) {
    match timeline.lane(LaneKind::Phases) {
        Some(lane) if lane.left_out == 0 => spans(timeline, &lane.spans, span, top, high, out),
        _ => shares(timeline, span, top, high, out),
    }
}

fn spans(
    timeline: &Timeline,
    spans: &[LaneSpan],
    span: &Span,
    top: usize,
    high: usize,
    out: &mut String,
) {
    let x = |time: u64| LEFT as f64 + CHART as f64 * span.axis.share(time);
    let mut rect = |class: &str, from: u64, to: u64, said: &[String]| {
        let (left, right) = (x(from), x(to));
        let width = (right - left).max(0.8);
        let _ = writeln!(
            out,
            "<rect class=\"{class}\" x=\"{left:.1}\" y=\"{top}\" width=\"{width:.1}\" \
             height=\"{high}\">{}</rect>",
            title(said)
        );
    };
    // The forward is not known after the last phase.
    let steps = timeline.lane(LaneKind::Steps);
    let ends = spans
        .iter()
        .chain(steps.into_iter().flat_map(|lane| &lane.spans));
    let end = ends.map(|of| of.to_ns).max().unwrap_or(0);
    if end > span.axis.from() {
        rect(
            "forward",
            span.axis.from(),
            end,
            &["forward, or an unknown phase".into()],
        );
    }
    let shown = |of: &&LaneSpan| of.from_ns <= span.axis.to() && of.to_ns >= span.axis.from();
    for of in spans.iter().filter(shown) {
        let [from, to] = [of.from_ns, of.to_ns].map(|ns| time(Nanos(ns)));
        let length = length_text(of.to_ns.saturating_sub(of.from_ns));
        let said = [of.label.clone(), format!("{from} to {to}, {length}")];
        rect(phase_class(&of.label), of.from_ns, of.to_ns, &said);
    }
}

/// A note that phases are shown as shares of time, if there are too many to know them individually.
pub(super) fn merged(timeline: &Timeline) -> Option<String> {
    merged_in(timeline.lane(LaneKind::Phases)?, &timeline.course)
}

fn merged_in(lane: &Lane, course: &[CourseBucket]) -> Option<String> {
    let widths = course.iter().map(|of| of.to_ns.saturating_sub(of.from_ns));
    let width = widths.max().filter(|_| lane.left_out > 0)?;
    Some(format!(
        "phases: {} are shown as shares of time, in intervals of {}; use --from and --to to see them individually",
        count(lane.spans.len() as u64 + lane.left_out),
        length_text(width)
    ))
}

/// Time in each phase by column, followed by the whole time.
pub(super) fn by_column(course: &[CourseBucket], span: &Span) -> Vec<[u64; 5]> {
    let mut time = vec![[0_u64; 5]; span.columns];
    for bucket in course {
        let (from, to) = (span.column(bucket.from_ns), span.column(bucket.to_ns));
        for column in &mut time[from..=to] {
            let phases = [
                bucket.backward_ns,
                bucket.optimizer_ns,
                bucket.zero_grad_ns,
                bucket.other_ns,
            ];
            for (sum, ns) in column.iter_mut().zip(phases) {
                *sum += ns;
            }
            column[4] += bucket.to_ns.saturating_sub(bucket.from_ns);
        }
    }
    time
}

/// The phases of each column, stacked by their shares of time.
fn shares(timeline: &Timeline, span: &Span, top: usize, high: usize, out: &mut String) {
    let width = span.width() as f64;
    let shares = |column: &[u64; 5]| {
        let whole = (column[4] as f64).max(width);
        let parts = [0, 1, 2, 3].map(|part| column[part] as f64 / whole);
        let forward = 1.0 - parts.iter().sum::<f64>();
        [parts[0], parts[1], parts[2], parts[3], forward.max(0.0)]
    };
    let time = by_column(&timeline.course, span);
    let shares: Vec<[f64; 5]> = time.iter().map(shares).collect();
    let mut below = vec![0_u64; CHART];
    for (part, (class, name)) in PHASES.iter().enumerate() {
        let above: Vec<u64> = shares
            .iter()
            .zip(&below)
            .map(|(share, below)| below + (share[part] * 120.0).round() as u64)
            .map(|bytes| bytes.min(120))
            .collect();
        let bottom = (top + high) as f64;
        let path = area(&above, &below, |share| {
            bottom - share as f64 * high as f64 / 120.0
        });
        let _ = writeln!(
            out,
            "<path class=\"{class}\" d=\"{path}\">{}</path>",
            title(&[(*name).into()])
        );
        below = above;
    }
}

/// The ends of steps, some of them with their numbers.
pub(super) fn step_ends(timeline: &Timeline, span: &Span, y: usize, out: &mut String) {
    let course = &timeline.course;
    let last = course.iter().filter_map(|bucket| bucket.step).next_back();
    let (stride, mut shown, mut free) = (step_stride(last.unwrap_or(0)), 0, LEFT as f64);
    for (step, time) in course.iter().filter_map(|of| Some((of.step?, of.step_ns?))) {
        let x = LEFT as f64 + CHART as f64 * span.axis.share(time);
        let half = step.to_string().len() as f64 * LARGE / 2.0;
        if step / stride == shown / stride || x - half < free {
            continue;
        }
        (shown, free) = (step, x + half + 8.0);
        let _ = writeln!(
            out,
            "<path class=\"axis\" d=\"M{x:.1} {y}v4\"/><text x=\"{x:.1}\" y=\"{}\" \
             class=\"m f\">{step}</text>",
            y + 20
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_that_are_shares_of_time_are_said() {
        let bucket = |from_ns, to_ns| CourseBucket {
            from_ns,
            to_ns,
            ..CourseBucket::default()
        };
        let course = [bucket(0, 2_000_000), bucket(2_000_000, 2_500_000)];
        let mut lane = Lane {
            kind: LaneKind::Phases,
            name: "phases",
            spans: Vec::new(),
            left_out: 0,
        };
        assert_eq!(merged_in(&lane, &course), None);
        lane.left_out = 5002;
        let said = merged_in(&lane, &course).unwrap_or_default();
        let begins =
            "phases: 5,002 are shown as shares of time, in intervals of 2.00 ms; use --from";
        assert!(said.starts_with(begins), "{said}");
    }
}

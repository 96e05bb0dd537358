//! Lanes below a chart: phases, steps, ranges, scopes and marks of the program.

use std::fmt::Write as _;

use super::columns::Span;
use super::layout::{CHART, LARGE, LEFT, SMALL, cut, text, title};
use super::phases;
use super::scale::length_text;
use crate::render::count;
use crate::render::markup::escaped;
use crate::units::time;
use crate::views::{Lane, LaneKind, LaneSpan, Timeline};
use gpumem_capture::Nanos;

/// Height of a row without and with the gap below it.
const HIGH: usize = 22;
const ROW: usize = 25;
/// Height of the row of phases.
const PHASES: usize = 14;
/// The maximum number of rows of a lane. Deeper spans are not drawn.
const DEEPEST: usize = 4;
/// Narrower spans are merged with their neighbours.
const NARROW: f64 = 2.0;

/// Spans of a lane by row, without overlaps, and the number of deeper ones.
fn rows<'a>(lane: &'a Lane, span: &Span) -> (Vec<Vec<&'a LaneSpan>>, u64) {
    let (mut rows, mut deeper): (Vec<Vec<&LaneSpan>>, u64) = (Vec::new(), 0);
    let shown = |of: &&LaneSpan| of.from_ns <= span.axis.to() && of.to_ns >= span.axis.from();
    for of in lane.spans.iter().filter(shown) {
        let ends_before =
            |row: &Vec<&LaneSpan>| row.last().is_none_or(|last| last.to_ns <= of.from_ns);
        match rows.iter().position(ends_before) {
            Some(row) => rows[row].push(of),
            None if rows.len() < DEEPEST => rows.push(vec![of]),
            None => deeper += 1,
        }
    }
    (rows, deeper)
}

/// Draws them from `top` on. Returns where they end.
pub(super) fn draw(timeline: &Timeline, span: &Span, top: usize, out: &mut String) -> usize {
    let mut y = top;
    if timeline.trains {
        out.push_str(&text(LEFT - 8, y + 12, "e f", "phases"));
        phases::draw(timeline, span, y, PHASES, out);
        y += PHASES + 8;
    }
    for lane in &timeline.lanes {
        match lane.kind {
            LaneKind::Phases => {}
            LaneKind::Steps if lane.left_out > 0 => {
                out.push_str(&text(LEFT - 8, y + 17, "e f", "steps end"));
                phases::step_ends(timeline, span, y, out);
                y += ROW;
            }
            LaneKind::Marks => {
                out.push_str(&text(LEFT - 8, y + 17, "e f", lane.name));
                marks(lane, span, y, out);
                y += ROW;
            }
            kind => {
                out.push_str(&text(LEFT - 8, y + 17, "e f", lane.name));
                for row in rows(lane, span).0 {
                    self::row(kind, &row, span, y, out);
                    y += ROW;
                }
            }
        }
    }
    y
}

/// Notes about what is not drawn.
pub(super) fn left_out(timeline: &Timeline, span: &Span) -> Vec<String> {
    let lanes = timeline.lanes.iter().filter_map(|lane| {
        // All of these are drawn, as shares of time: see `phases::merged`.
        if matches!(lane.kind, LaneKind::Phases | LaneKind::Steps) {
            return None;
        }
        let (name, deeper) = (lane.name, rows(lane, span).1);
        let mut said = Vec::new();
        if lane.left_out > 0 {
            let what = match lane.kind {
                LaneKind::Marks => "later",
                _ => "narrower",
            };
            said.push(format!("{} {what} ones", count(lane.left_out)));
        }
        if deeper > 0 && lane.kind != LaneKind::Marks {
            said.push(format!("{} deeper ones", count(deeper)));
        }
        (!said.is_empty()).then(|| format!("{name}: {} are not shown", said.join(" and ")))
    });
    phases::merged(timeline).into_iter().chain(lanes).collect()
}

fn x(span: &Span, time: u64) -> f64 {
    LEFT as f64 + CHART as f64 * span.axis.share(time)
}

/// The title of a span, shown on hovering.
fn said(of: &LaneSpan) -> [String; 2] {
    let [from, to] = [of.from_ns, of.to_ns].map(|ns| time(Nanos(ns)));
    let length = length_text(of.to_ns.saturating_sub(of.from_ns));
    [of.label.clone(), format!("{from} to {to}, {length}")]
}

/// Adjacent spans that are too narrow to be drawn separately.
struct Group<'a> {
    from: f64,
    to: f64,
    spans: Vec<&'a LaneSpan>,
}

fn groups<'a>(row: &[&'a LaneSpan], span: &Span) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    for of in row.iter().copied() {
        let from = x(span, of.from_ns);
        let to = x(span, of.to_ns).max(from + 1.0);
        let narrow = to - from < NARROW;
        match groups.last_mut() {
            Some(last)
                if narrow
                    && last
                        .spans
                        .last()
                        .is_some_and(|of| x(span, of.to_ns) - x(span, of.from_ns) < NARROW)
                    && from < last.to + 0.5 =>
            {
                last.to = to.max(last.to);
                last.spans.push(of);
            }
            _ => groups.push(Group {
                from,
                to,
                spans: vec![of],
            }),
        }
    }
    groups
}

fn row(kind: LaneKind, row: &[&LaneSpan], span: &Span, y: usize, out: &mut String) {
    let class = match kind {
        LaneKind::Steps => "step",
        LaneKind::Ranges => "range",
        _ => "scope",
    };
    for group in groups(row, span) {
        let (left, width) = (group.from, group.to - group.from);
        let (class, said) = match &group.spans[..] {
            [of] => (class, said(of).to_vec()),
            many => {
                let first: Vec<&str> = many.iter().take(3).map(|of| of.label.as_str()).collect();
                let more = if many.len() > 3 { ", …" } else { "" };
                let what = format!("{} {}", count(many.len() as u64), lane_word(kind));
                ("many", vec![what, format!("{}{more}", first.join(", "))])
            }
        };
        let _ = writeln!(
            out,
            "<rect class=\"{class} edge\" x=\"{left:.1}\" y=\"{y}\" width=\"{width:.1}\" \
             height=\"{HIGH}\">{}</rect>",
            title(&said)
        );
        if let [of] = group.spans[..] {
            label(kind, of, beside_folds(span, left, left + width), y, out);
        }
    }
}

fn lane_word(kind: LaneKind) -> &'static str {
    kind.name()
}

/// The part of a span that has room for a label: outside folds.
fn beside_folds(span: &Span, left: f64, right: f64) -> (f64, f64) {
    let folds = span
        .axis
        .folds()
        .iter()
        .map(|fold| fold.map(|at| x(span, at)));
    let mut from = left;
    for [begin, end] in folds.filter(|[begin, end]| *end > left && *begin < right) {
        if begin - from > 60.0 {
            return (from, begin - from);
        }
        from = end;
    }
    (from, right - from)
}

/// The label of a span, cut to its width: once for the small text size and once for the large one.
fn label(kind: LaneKind, of: &LaneSpan, (left, width): (f64, f64), y: usize, out: &mut String) {
    let label = match kind {
        LaneKind::Steps => of.label.trim_start_matches("step "),
        _ => &of.label,
    };
    let needed = label.chars().count();
    let cut_to = |each: f64| {
        let room = ((width - 6.0) / each).max(0.0) as usize;
        (room >= needed.min(4)).then(|| cut(label, room.max(1)))
    };
    let [small, large] = [SMALL, LARGE].map(cut_to);
    let mut write = |class: &str, label: &str| {
        let (x, y, label) = (left + 3.0, y + 16, escaped(label));
        let _ = writeln!(out, "<text x=\"{x:.1}\" y=\"{y}\"{class}>{label}</text>");
    };
    match (small, large) {
        (Some(small), Some(large)) if small == large => write("", &small),
        (small, large) => {
            if let Some(small) = small {
                write(" class=\"w\"", &small);
            }
            if let Some(large) = large {
                write(" class=\"l\"", &large);
            }
        }
    }
}

fn marks(lane: &Lane, span: &Span, y: usize, out: &mut String) {
    let mut free = 0.0;
    for of in lane.spans.iter().filter(|of| span.axis.has(of.from_ns)) {
        let at = x(span, of.from_ns);
        let (middle, bottom) = (y + 11, y + 18);
        let _ = writeln!(
            out,
            "<path class=\"mark\" d=\"M{at:.1} {}l5 7L{at:.1} {bottom}l-5 -7Z\">{}</path>",
            middle - 7,
            title(&[of.label.clone(), time(Nanos(of.from_ns))])
        );
        let label = cut(&of.label, 16);
        let width = label.chars().count() as f64 * LARGE;
        let from = at + 8.0;
        let next = lane.spans.iter().map(|next| x(span, next.from_ns));
        let next = next.filter(|next| *next > at).fold(f64::INFINITY, f64::min);
        let folds = span.axis.folds().iter();
        let mut folds = folds.map(|fold| fold.map(|at| x(span, at)));
        let folded = folds.any(|[begin, end]| begin < from + width && from < end);
        let end = next.min((LEFT + CHART + 8) as f64);
        if from >= free && from + width < end && !folded {
            let label = escaped(&label);
            let _ = writeln!(
                out,
                "<text x=\"{from:.1}\" y=\"{}\" class=\"f\">{label}</text>",
                y + 17
            );
            free = from + width;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::views::TimeAxis;

    fn lane(spans: &[(u64, u64)]) -> Lane {
        Lane {
            kind: LaneKind::Ranges,
            name: "ranges",
            spans: spans
                .iter()
                .map(|(from_ns, to_ns)| LaneSpan {
                    from_ns: *from_ns,
                    to_ns: *to_ns,
                    label: format!("r{from_ns}"),
                })
                .collect(),
            left_out: 0,
        }
    }

    #[test]
    fn nested_spans_have_rows_and_the_deepest_are_counted() {
        let span = Span {
            axis: TimeAxis::new(0, 1000, &[]),
            columns: CHART,
        };
        let nested = lane(&[
            (0, 1000),
            (10, 900),
            (20, 800),
            (30, 700),
            (40, 600),
            (900, 950),
        ]);
        let (rows, deeper) = rows(&nested, &span);
        let of: Vec<Vec<u64>> = rows
            .iter()
            .map(|row| row.iter().map(|of| of.from_ns).collect())
            .collect();
        assert_eq!(of, [vec![0], vec![10, 900], vec![20], vec![30]]);
        assert_eq!(deeper, 1);
    }

    #[test]
    fn narrow_neighbours_are_drawn_together() {
        let span = Span {
            axis: TimeAxis::new(0, 1_000_000, &[]),
            columns: CHART,
        };
        let spans: Vec<(u64, u64)> = (0..5000).map(|at| (at * 100, at * 100 + 90)).collect();
        let lane = lane(&spans);
        let row: Vec<&LaneSpan> = lane.spans.iter().collect();
        let groups = groups(&row, &span);
        assert!(groups.len() <= CHART, "{}", groups.len());
        let all: usize = groups.iter().map(|group| group.spans.len()).sum();
        assert_eq!(all, 5000);
    }
}

//! Peaks over commits as SVG: a line for each workload, named at its end. The same history gives the same bytes.

use std::fmt::Write as _;

use super::words::percent;
use crate::account::many;
use crate::render::markup::escaped;
use crate::render::timeline::cut;
use crate::render::{bytes, count};
use crate::views::ci::{Day, Series, Trend, TrendCommit};

/// The size of the picture, and the position of the chart in it.
const WIDTH: usize = 960;
const HEIGHT: usize = 380;
const LEFT: f64 = 84.0;
const RIGHT: f64 = 660.0;
const TOP: f64 = 72.0;
const BOTTOM: f64 = 320.0;
/// The least distance between labels, and their left edge.
const ROW: f64 = 17.0;
const LABEL: f64 = 676.0;
/// The maximum number of lines: each has a colour.
const LINES: usize = 8;
/// The maximum length of a label's name.
const NAME: usize = 22;
/// Points have no marks if there are more commits.
const MARKS: usize = 50;

const LIGHT: [&str; LINES] = [
    "#0969da", "#bc4c00", "#1a7f37", "#8250df", "#bf3989", "#9a6700", "#0a7d91", "#57606a",
];
const DARK: [&str; LINES] = [
    "#58a6ff", "#f0883e", "#3fb950", "#bc8cff", "#f778ba", "#d29922", "#39c5cf", "#9198a1",
];

/// Draws a trend.
pub fn trend_svg(trend: &Trend) -> String {
    let drawn = &trend.series[..trend.series.len().min(LINES)];
    let scale = Scale::of(trend.commits.len(), drawn);
    let title = format!(
        "Peak GPU memory over {}",
        many(trend.commits.len() as u64, "commit", "commits")
    );
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{HEIGHT}\" \
         viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{title}\">\n<style>{}</style>\n\
         <rect class=\"b\" width=\"{WIDTH}\" height=\"{HEIGHT}\"/>\n\
         <text x=\"16\" y=\"28\" class=\"t\">{title}</text>\n",
        style()
    );
    let mut said = Vec::new();
    if scale.from > 0 {
        said.push(format!("the axis begins at {}", bytes(scale.from)));
    }
    if trend.series.len() > drawn.len() {
        let others = trend.series.len() - drawn.len();
        said.push(format!("{others} with smaller peaks are not drawn"));
    }
    if drawn
        .iter()
        .any(|line| line.known().any(|(_, _, exact)| !exact))
    {
        said.push("hollow: the capture is partial".to_owned());
    }
    let _ = writeln!(
        out,
        "<text x=\"16\" y=\"48\" class=\"f\">{}</text>",
        said.join("; ")
    );
    scale.axis(&mut out);
    commits(&trend.commits, &scale, &mut out);
    for (index, line) in drawn.iter().enumerate() {
        series(index, line, &trend.commits, &scale, &mut out);
    }
    labels(drawn, &scale, &mut out);
    out.push_str("</svg>\n");
    out
}

/// Colours for light and dark pages.
fn style() -> String {
    let lines = |colours: [&str; LINES]| {
        let rules = colours.iter().enumerate();
        let rules = rules.map(|(index, colour)| {
            format!(".l{index}{{stroke:{colour}}}.d{index}{{fill:{colour}}}")
        });
        rules.collect::<String>()
    };
    format!(
        "text{{font:12px system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif;fill:#1b1f24}}\
         .t{{font-size:16px;font-weight:600}}.f{{fill:#57606a}}.e{{text-anchor:end}}.m{{text-anchor:middle}}\
         .b{{fill:#fff}}.g{{stroke:#d8dee4}}.l{{fill:none;stroke-width:2;stroke-linejoin:round}}.h{{fill:#fff;stroke-width:2}}{}\
         @media(prefers-color-scheme:dark){{text{{fill:#e6edf3}}.f{{fill:#9198a1}}.b{{fill:#0d1117}}.g{{stroke:#30363d}}\
         .h{{fill:#0d1117}}{}}}",
        lines(LIGHT),
        lines(DARK)
    )
}

/// Maps commits and bytes to positions.
struct Scale {
    commits: usize,
    from: u64,
    to: u64,
    step: u64,
}

impl Scale {
    /// From 0, or from near the smallest if all are similar, so that a growth of 3 % is visible.
    fn of(commits: usize, lines: &[Series]) -> Self {
        let peaks = lines
            .iter()
            .flat_map(Series::known)
            .map(|(_, bytes, _)| bytes);
        let (least, most) = peaks.fold((u64::MAX, 1), |(least, most), bytes| {
            (least.min(bytes), most.max(bytes))
        });
        let least = least.min(most);
        // Ticks at smaller distances would have equal labels.
        let range = (most - least).max(most / 16);
        let lowest = match least > most / 2 {
            true => most.saturating_sub(range + range / 2),
            false => 0,
        };
        let mut step = 1;
        while (most - lowest) / step > 6 && step < 1 << 62 {
            step *= 2;
        }
        Self {
            commits,
            from: lowest / step * step,
            to: most,
            step,
        }
    }

    fn x(&self, at: usize) -> f64 {
        let last = self.commits.saturating_sub(1).max(1) as f64;
        // A single commit is at the right end, next to its label.
        let at = if self.commits == 1 { 1 } else { at };
        LEFT + 12.0 + (RIGHT - LEFT - 12.0) * at as f64 / last
    }

    fn y(&self, bytes: u64) -> f64 {
        let range = (self.to - self.from).max(1) as f64;
        BOTTOM - (bytes.saturating_sub(self.from)) as f64 / range * (BOTTOM - TOP - 8.0)
    }

    fn axis(&self, out: &mut String) {
        let mut tick = self.from;
        while tick <= self.to {
            let y = self.y(tick);
            let _ = writeln!(
                out,
                "<path class=\"g\" d=\"M{LEFT} {y:.1}H{RIGHT}\"/><text x=\"{}\" y=\"{:.1}\" class=\"e f\">{}</text>",
                LEFT - 8.0,
                y + 4.0,
                bytes(tick)
            );
            let Some(next) = tick.checked_add(self.step) else {
                break;
            };
            tick = next;
        }
    }
}

/// The first and the last commit below the chart.
fn commits(commits: &[TrendCommit], scale: &Scale, out: &mut String) {
    let ends = match commits {
        [] => return,
        [only] => vec![(0, only, "e")],
        [first, .., last] => vec![(0, first, "s"), (commits.len() - 1, last, "e")],
    };
    for (at, commit, class) in ends {
        let x = scale.x(at);
        let day = Day::of_unix(commit.seconds);
        let _ = writeln!(
            out,
            "<text x=\"{x:.1}\" y=\"{}\" class=\"{class} f\">{}</text><text x=\"{x:.1}\" y=\"{}\" class=\"{class} f\">{day}</text>",
            BOTTOM + 20.0,
            short(&commit.hash),
            BOTTOM + 37.0
        );
    }
}

fn short(hash: &str) -> String {
    escaped(&hash.chars().take(8).collect::<String>())
}

fn series(index: usize, line: &Series, commits: &[TrendCommit], scale: &Scale, out: &mut String) {
    let mut path = String::new();
    for (at, bytes, _) in line.known() {
        let command = if path.is_empty() { 'M' } else { 'L' };
        let _ = write!(path, "{command}{:.1} {:.1}", scale.x(at), scale.y(bytes));
    }
    let _ = writeln!(out, "<path class=\"l l{index}\" d=\"{path}\"/>");
    let last = line.known().next_back().map(|(at, ..)| at);
    for (at, peak, exact) in line.known() {
        if commits.len() > MARKS && exact && Some(at) != last {
            continue;
        }
        let class = match exact {
            true => format!("d{index}"),
            false => format!("h l{index}"),
        };
        let _ = writeln!(
            out,
            "<circle class=\"{class}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3.5\"><title>{}, {}, {}: {} ({} bytes)</title></circle>",
            scale.x(at),
            scale.y(peak),
            escaped(&line.name),
            short(&commits[at].hash),
            Day::of_unix(commits[at].seconds),
            bytes(peak),
            count(peak)
        );
    }
}

/// Names and newest peaks at the ends of lines, moved so that they do not overlap.
fn labels(lines: &[Series], scale: &Scale, out: &mut String) {
    let mut places: Vec<(usize, f64)> = lines
        .iter()
        .enumerate()
        .map(|(index, line)| (index, scale.y(line.last())))
        .collect();
    places.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mut from = f64::MIN;
    for (_, y) in &mut places {
        *y = y.max(from + ROW);
        from = *y;
    }
    let mut to = BOTTOM + ROW;
    for (_, y) in places.iter_mut().rev() {
        *y = y.min(to - ROW);
        to = *y;
    }
    for (index, y) in places {
        let line = &lines[index];
        let Some((at, last, _)) = line.known().next_back() else {
            continue;
        };
        let first = line.known().next().map_or(last, |(_, bytes, _)| bytes);
        let change = match i64::try_from(last).unwrap_or(0) - i64::try_from(first).unwrap_or(0) {
            0 => String::new(),
            change => {
                percent(first, change).map_or(String::new(), |percent| format!(" ({percent})"))
            }
        };
        let _ = writeln!(
            out,
            "<path class=\"l{index}\" fill=\"none\" d=\"M{:.1} {:.1}L{:.1} {y:.1}\"/>\
             <text x=\"{LABEL}\" y=\"{:.1}\">{} {}{}</text>",
            scale.x(at) + 4.0,
            scale.y(last),
            LABEL - 4.0,
            y + 4.0,
            escaped(&cut(&line.name, NAME)),
            bytes(last),
            escaped(&change)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::views::ci::PastPeak;

    fn trend(peaks: &[&[u64]]) -> Trend {
        let rows = peaks.iter().enumerate().flat_map(|(workload, peaks)| {
            peaks.iter().enumerate().map(move |(at, peak)| PastPeak {
                commit: format!("{at:08x}"),
                workload: format!("w<{workload}>"),
                device: Some(0),
                level: "tensor".into(),
                seconds: at as i64 * 86_400,
                peak_bytes: *peak,
                exact: true,
            })
        });
        Trend::of(&rows.collect::<Vec<_>>(), 100)
    }

    #[test]
    fn a_growth_of_three_percent_is_seen() {
        let scale = Scale::of(2, &trend(&[&[1_000_000, 1_030_000]]).series);
        assert!(scale.y(1_000_000) - scale.y(1_030_000) > 40.0);
        assert!(scale.from > 0);
        assert_eq!(Scale::of(2, &trend(&[&[10, 1000]]).series).from, 0);
    }

    #[test]
    fn labels_do_not_overlap_and_stay_in_the_picture() {
        let lines: Vec<[u64; 1]> = (0..9).map(|at| [1000 + at]).collect();
        let lines: Vec<&[u64]> = lines.iter().map(|line| &line[..]).collect();
        let svg = trend_svg(&trend(&lines));
        let labels = svg.split("<text x=\"676\" y=\"").skip(1);
        let mut places: Vec<f64> = labels
            .map(|rest| {
                rest.split('"')
                    .next()
                    .and_then(|y| y.parse().ok())
                    .expect("a number")
            })
            .collect();
        places.sort_by(f64::total_cmp);
        assert_eq!(places.len(), 8);
        assert!(
            places.windows(2).all(|two| two[1] - two[0] >= ROW - 0.11),
            "{places:?}"
        );
        assert!(
            places
                .iter()
                .all(|y| (TOP - 20.0..=HEIGHT as f64).contains(y))
        );
        assert!(svg.contains("1 with smaller peaks are not drawn"));
        assert!(svg.contains("w&lt;8&gt;") && !svg.contains("w<"));
    }

    #[test]
    fn nothing_is_a_picture_too() {
        for peaks in [&[][..], &[&[0][..]], &[&[u64::MAX >> 1, 0][..]]] {
            let svg = trend_svg(&trend(peaks));
            assert!(svg.ends_with("</svg>\n") && !svg.contains("NaN") && !svg.contains("inf"));
        }
    }
}

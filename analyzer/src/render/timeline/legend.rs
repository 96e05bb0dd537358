//! The legend: the colours, and the bytes of each band at the peak.

use std::fmt::Write as _;

use super::chart::Chart;
use super::layout::{ROW, SIDE, WIDTH, cut, exact, text, title};
use crate::render::bytes;
use crate::views::LaneKind;

/// The legend's columns.
const COLUMNS: usize = 2;
const GAP: usize = 36;
/// The maximum length of a name.
const NAME: usize = 27;

/// A row: sign, name, figure.
struct Entry {
    sign: Sign,
    name: String,
    figure: Option<u64>,
}

enum Sign {
    Square(&'static str),
    Dashes,
    None,
}

fn entries(chart: &Chart<'_>) -> Vec<Entry> {
    let device = chart.device;
    let peak = device.peak.as_ref();
    let bands = device.bands.iter().zip(chart.classes()).enumerate().rev();
    let mut out: Vec<Entry> = bands
        .map(|(index, (band, class))| {
            let at = peak.and_then(|peak| peak.bytes.get(index)).copied();
            Entry {
                sign: Sign::Square(class),
                name: band.name.clone(),
                figure: Some(at.unwrap_or(0)),
            }
        })
        .collect();
    if let Some(peak) = peak.filter(|_| device.bands.len() > 1) {
        out.push(Entry {
            sign: Sign::None,
            name: "together".into(),
            figure: Some(peak.sum()),
        });
    }
    let mut readings = device
        .buckets
        .iter()
        .map(|bucket| bucket.nvml_process_bytes);
    if !chart.level && readings.any(|reading| reading.is_some()) {
        out.push(Entry {
            sign: Sign::Dashes,
            name: "NVML, this process".into(),
            figure: None,
        });
    }
    if chart.timeline.trains && !device.bands.is_empty() {
        let spans = chart.timeline.lane(LaneKind::Phases);
        let labels = |word: &str| {
            let mut spans = spans.into_iter().flat_map(|lane| &lane.spans);
            spans.any(|span| span.label == word)
        };
        let phase = |class: &'static str, name: &str| Entry {
            sign: Sign::Square(class),
            name: name.into(),
            figure: None,
        };
        out.push(phase("forward", "forward"));
        for class in ["backward", "optimizer", "zero_grad"] {
            if labels(class) {
                out.push(phase(class, class));
            }
        }
    }
    out
}

/// Draws it from `top` on, column by column. Returns where it ends.
pub(super) fn draw(chart: &Chart<'_>, top: usize, out: &mut String) -> usize {
    let entries = entries(chart);
    if entries.is_empty() {
        return top;
    }
    let rows = entries.len().div_ceil(COLUMNS);
    let wide = (WIDTH - 2 * SIDE - GAP * (COLUMNS - 1)) / COLUMNS;
    for (column, entries) in entries.chunks(rows).enumerate() {
        let left = SIDE + column * (wide + GAP);
        let right = left + wide;
        if entries.iter().any(|entry| entry.figure.is_some()) {
            out.push_str(&text(right, top + 20, "e f", "at the peak"));
        }
        for (row, entry) in entries.iter().enumerate() {
            let y = top + 20 + ROW * (row + 1);
            sign(&entry.sign, left, y, out);
            let class = match entry.sign {
                Sign::None => "f",
                _ => "",
            };
            out.push_str(&text(left + 20, y, class, &cut(&entry.name, NAME)));
            if let Some(figure) = entry.figure {
                let said = format!("{}: {}", entry.name, exact(figure));
                let _ = writeln!(
                    out,
                    "<text x=\"{right}\" y=\"{y}\" class=\"{}\">{}{}</text>",
                    format!("e {class}").trim_end(),
                    bytes(figure),
                    title(&[said])
                );
            }
        }
    }
    top + 20 + ROW * rows + 10
}

fn sign(sign: &Sign, left: usize, y: usize, out: &mut String) {
    let _ = match sign {
        Sign::Square(class) => writeln!(
            out,
            "<rect x=\"{left}\" y=\"{}\" width=\"12\" height=\"12\" class=\"{class}\"/>",
            y - 11
        ),
        Sign::Dashes => writeln!(out, "<path class=\"nvml\" d=\"M{left} {}h14\"/>", y - 5),
        Sign::None => Ok(()),
    };
}

//! Positions in the picture, and its shapes and texts.
//!
//! The picture is also shown with a width of 390 px. Texts are then 23 units high instead of 13 (see the style
//! sheet), so all have room for that.

use crate::render::markup::escaped;
use std::fmt::Write as _;

use super::scale::byte_ticks;
use crate::render::{bytes, count};

/// The picture's width, in units.
pub(super) const WIDTH: usize = 960;
/// The margin at the sides.
pub(super) const SIDE: usize = 12;
/// The left edge and the width of charts.
pub(super) const LEFT: usize = 112;
pub(super) const CHART: usize = 836;
/// The right edge of charts.
pub(super) const RIGHT: usize = LEFT + CHART;
/// A row of text.
pub(super) const ROW: usize = 26;
/// Characters of a line with the largest text.
pub(super) const LINE: usize = 78;
/// The maximum width of a character, with the largest and with normal text.
pub(super) const LARGE: f64 = 13.0;
pub(super) const SMALL: f64 = 7.4;

/// A text of a class at a position.
pub(super) fn text(x: usize, y: usize, class: &str, text: &str) -> String {
    let text = escaped(text);
    let class = match class {
        "" => String::new(),
        class => format!(" class=\"{class}\""),
    };
    format!("<text x=\"{x}\" y=\"{y}\"{class}>{text}</text>\n")
}

/// Wrapped lines of text from a position on. Returns the position of the next line.
pub(super) fn lines(mut y: usize, class: &str, said: &str, out: &mut String) -> usize {
    // A figure is not separated from its unit.
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "s", "ms", "µs"];
    let mut joined = format!("{said} ");
    for unit in units {
        for end in [" ", ",", ":"] {
            joined = joined.replace(&format!(" {unit}{end}"), &format!("\u{a0}{unit}{end}"));
        }
    }
    for line in textwrap::wrap(joined.trim_end(), LINE) {
        out.push_str(&text(
            SIDE,
            y,
            class,
            &cut(&line.replace('\u{a0}', " "), LINE),
        ));
        y += ROW;
    }
    y
}

/// A text, cut to a maximum number of characters.
pub(in crate::render) fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most - 1).chain(['…']).collect()
}

/// The title of a shape, in lines.
pub(super) fn title(lines: &[String]) -> String {
    let lines: Vec<String> = lines.iter().map(|line| escaped(line)).collect();
    format!("<title>{}</title>", lines.join("\n"))
}

/// Rounded and exact bytes.
pub(super) fn exact(of: u64) -> String {
    match of {
        0..1024 => bytes(of),
        _ => format!("{} ({} bytes)", bytes(of), count(of)),
    }
}

/// The position of bytes in a chart.
pub(super) fn height(bytes: u64, most: u64, bottom: usize, height: usize) -> f64 {
    let share = (bytes as f64 / most as f64).min(1.0);
    // The greatest value is slightly below the upper edge of the chart.
    bottom as f64 - share * (height as f64 - 8.0)
}

/// The lines and labels of an axis of bytes. The distance between two labels is at least `apart`.
pub(super) fn byte_axis(most: u64, top: usize, high: usize, apart: f64, out: &mut String) {
    let bottom = top + high;
    let mut free = f64::INFINITY;
    for tick in byte_ticks(most) {
        let y = height(tick, most, bottom, high);
        let _ = writeln!(out, "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{RIGHT}\"/>");
        if y <= free {
            let (x, y) = (LEFT - 8, y + 5.0);
            let bytes = bytes(tick);
            let _ = writeln!(
                out,
                "<text x=\"{x}\" y=\"{y:.1}\" class=\"e f\">{bytes}</text>"
            );
            free = y - 5.0 - apart;
        }
    }
}

/// The outline of the area between two lines of columns, as steps.
pub(super) fn area(above: &[u64], below: &[u64], y: impl Fn(u64) -> f64) -> String {
    let mut path = String::new();
    let mut from = 0;
    while from < above.len() {
        // Empty parts of a band are not drawn.
        if above[from] == below[from] {
            from += 1;
            continue;
        }
        let run = above[from..].iter().zip(&below[from..]);
        let to = from + run.take_while(|(above, below)| above != below).count();
        let _ = write!(path, "M{} {:.1}", LEFT + from, y(above[from]));
        for column in from + 1..to {
            if above[column] != above[column - 1] {
                let _ = write!(path, "H{}V{:.1}", LEFT + column, y(above[column]));
            }
        }
        let _ = write!(path, "H{}V{:.1}", LEFT + to, y(below[to - 1]));
        for column in (from + 1..to).rev() {
            if below[column - 1] != below[column] {
                let _ = write!(path, "H{}V{:.1}", LEFT + column, y(below[column - 1]));
            }
        }
        let _ = write!(path, "H{}Z", LEFT + from);
        from = to;
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_and_titles_have_lines() {
        assert_eq!(cut("abcd", 3), "ab…");
        assert_eq!(title(&["<a".into(), "b".into()]), "<title>&lt;a\nb</title>");
    }

    #[test]
    fn all_bytes_are_said() {
        assert_eq!(exact(7), "7 B");
        assert_eq!(exact(3 << 20), "3.00 MiB (3,145,728 bytes)");
    }
}

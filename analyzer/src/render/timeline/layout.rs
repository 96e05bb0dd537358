//! Where things are in the picture, and the shapes and texts that it is made of.
//!
//! The picture is also looked at 390 px wide. Texts are then 23 units high and not 13 (see the style sheet), so all
//! of them have room for that.

use std::fmt::Write as _;

use super::scale::byte_ticks;
use crate::render::{bytes, count};

/// The picture's width, in units.
pub(super) const WIDTH: usize = 960;
/// What stays free at the sides.
pub(super) const SIDE: usize = 12;
/// Where charts begin and how wide they are.
pub(super) const LEFT: usize = 112;
pub(super) const CHART: usize = 836;
/// Where charts end.
pub(super) const RIGHT: usize = LEFT + CHART;
/// A row of text.
pub(super) const ROW: usize = 26;
/// Characters of a line, where texts are largest.
pub(super) const LINE: usize = 78;
/// How wide a character is at most where texts are largest, and where they are not.
pub(super) const LARGE: f64 = 13.0;
pub(super) const SMALL: f64 = 7.4;

/// A text of a class at a place.
pub(super) fn text(x: usize, y: usize, class: &str, text: &str) -> String {
    let text = escaped(text);
    let class = match class {
        "" => String::new(),
        class => format!(" class=\"{class}\""),
    };
    format!("<text x=\"{x}\" y=\"{y}\"{class}>{text}</text>\n")
}

/// Lines of text from a place on, wrapped; returns where the next would be.
pub(super) fn lines(mut y: usize, class: &str, said: &str, out: &mut String) -> usize {
    // A figure stays with its unit.
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

/// A text that is no longer than so many characters.
pub(in crate::render) fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most - 1).chain(['…']).collect()
}

/// As XML takes it.
pub(in crate::render) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// The title of a shape, in lines.
pub(super) fn title(lines: &[String]) -> String {
    let lines: Vec<String> = lines.iter().map(|line| escaped(line)).collect();
    format!("<title>{}</title>", lines.join("\n"))
}

/// Bytes as people read them, and all of them.
pub(super) fn exact(of: u64) -> String {
    match of {
        0..1024 => bytes(of),
        _ => format!("{} ({} bytes)", bytes(of), count(of)),
    }
}

/// Where bytes are in a chart.
pub(super) fn height(bytes: u64, most: u64, bottom: usize, height: usize) -> f64 {
    let share = (bytes as f64 / most as f64).min(1.0);
    // The greatest stands a little below the chart's upper edge.
    bottom as f64 - share * (height as f64 - 8.0)
}

/// The lines of an axis of bytes, and what they stand for; no two labels are nearer than `apart`.
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

/// The outline of what lies between two lines of columns, as steps.
pub(super) fn area(above: &[u64], below: &[u64], y: impl Fn(u64) -> f64) -> String {
    let mut path = String::new();
    let mut from = 0;
    while from < above.len() {
        // Where the band is empty nothing is drawn.
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
    fn names_cannot_leave_their_text() {
        assert_eq!(
            escaped("</text>&\"\u{1b}"),
            "&lt;/text&gt;&amp;&quot;\u{fffd}"
        );
        assert_eq!(cut("abcd", 3), "ab…");
        assert_eq!(title(&["<a".into(), "b".into()]), "<title>&lt;a\nb</title>");
    }

    #[test]
    fn all_bytes_are_said() {
        assert_eq!(exact(7), "7 B");
        assert_eq!(exact(3 << 20), "3.00 MiB (3,145,728 bytes)");
    }
}

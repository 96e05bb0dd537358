//! Where things are in the picture, and the shapes and texts that it is made of.

use std::fmt::Write as _;

use super::scale::byte_ticks;
use crate::render::bytes;
use crate::replay::Category;
use crate::views::{Band, BandKind};

/// The picture's width.
pub(super) const WIDTH: usize = 1200;
/// Where charts begin and how wide they are.
pub(super) const LEFT: usize = 84;
pub(super) const CHART: usize = 800;
/// Where legends begin and end.
pub(super) const LEGEND: usize = 908;
pub(super) const RIGHT: usize = 1184;

/// A text of a class at a place.
pub(super) fn text(x: usize, y: usize, class: &str, text: &str) -> String {
    let text = escaped(text);
    format!("<text x=\"{x}\" y=\"{y}\" class=\"{class}\">{text}</text>\n")
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

/// Colours of libraries, told apart by people who see few.
const LIBRARIES: [&str; 8] = [
    "#cc79a7", "#8c6d31", "#c5b000", "#56b4e9", "#d55e00", "#7f5fb0", "#e69f00", "#009e73",
];

/// The colour of a band; `library` counts those before it. The page has the same.
pub(super) fn colour(band: &Band, library: usize) -> &'static str {
    match band.kind {
        BandKind::Tensors => band.category.map_or("#2f6db5", category_colour),
        BandKind::Cached => "#abc9ea",
        BandKind::Library => LIBRARIES[library % LIBRARIES.len()],
        BandKind::OtherLibraries => "#a6761d",
        BandKind::Unknown => "#b0b0b0",
        BandKind::Graph => "#44aa99",
        BandKind::Beyond => "#dcdcdc",
        BandKind::Level => "#2f6db5",
    }
}

/// The colour of tensors of one category.
fn category_colour(category: Category) -> &'static str {
    match category {
        Category::Parameter => "#1f4e8c",
        Category::Gradient => "#7a4fa3",
        Category::OptimizerState => "#1b8a7a",
        Category::Activation => "#e07b39",
        Category::Input => "#8bb84b",
        Category::Workspace => "#6b7785",
        Category::Temporary => "#e5c355",
        Category::Other | Category::None => "#6f9fd8",
    }
}

/// The square of a colour in a legend.
pub(super) fn swatch(y: usize, colour: &str, out: &mut String) {
    let top = y - 10;
    let _ = writeln!(
        out,
        "<rect x=\"{LEGEND}\" y=\"{top}\" width=\"12\" height=\"12\" fill=\"{colour}\"/>"
    );
}

/// Where bytes are in a chart.
pub(super) fn height(bytes: u64, most: u64, bottom: usize, height: usize) -> f64 {
    let share = (bytes as f64 / most as f64).min(1.0);
    // The greatest stands a little below the chart's upper edge.
    bottom as f64 - share * (height as f64 - 8.0)
}

/// The lines of an axis of bytes, and what they stand for.
pub(super) fn byte_axis(most: u64, top: usize, high: usize, out: &mut String) {
    let (bottom, right) = (top + high, LEFT + CHART);
    for tick in byte_ticks(most) {
        let y = height(tick, most, bottom, high);
        let _ = writeln!(
            out,
            "<path class=\"g\" d=\"M{LEFT} {y:.1}H{right}\"/><text x=\"{}\" y=\"{:.1}\" \
             class=\"e f\">{}</text>",
            LEFT - 8,
            y + 4.0,
            bytes(tick)
        );
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
    }
}

//! The timeline as SVG. The same timeline gives the same bytes.

use super::columns::Span;
use super::panel::Panel;
use crate::views::{BandKind, Timeline};

/// The picture's width.
pub(super) const WIDTH: usize = 1200;
/// Where charts begin and how wide they are.
pub(super) const LEFT: usize = 84;
pub(super) const CHART: usize = 800;
/// Where legends begin and end.
pub(super) const LEGEND: usize = 908;
pub(super) const RIGHT: usize = 1184;

const STYLE: &str = "\
text{font:12px system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif;fill:#1b1f24}\
.h{font-size:15px;font-weight:600}.t{font-size:18px;font-weight:600}.f{fill:#57606a}\
.e{text-anchor:end}.m{text-anchor:middle}.g{stroke:#d8dee4}.x{stroke:#57606a}\
.o{fill:#b3261e}";

/// Draws a timeline. `None` where there is nothing to draw.
pub fn timeline_svg(timeline: &Timeline, heading: &str, subtitle: &str) -> Option<Vec<u8>> {
    if timeline.devices.is_empty() {
        return None;
    }
    let span = Span {
        from: timeline.from_ns,
        to: timeline.to_ns,
        columns: CHART,
    };
    let mut y = if subtitle.is_empty() { 44 } else { 62 };
    let mut body = text(16, 28, "t", heading);
    if !subtitle.is_empty() {
        body.push_str(&text(16, 48, "f", &cut(subtitle, 150)));
    }
    for device in &timeline.devices {
        let panel = Panel::new(timeline, device, span);
        y += panel.draw(y, &mut body);
    }
    let svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{y}\" \
         viewBox=\"0 0 {WIDTH} {y}\" role=\"img\" aria-label=\"{}\">\n<style>{STYLE}</style>\n\
         <rect width=\"{WIDTH}\" height=\"{y}\" fill=\"#fff\"/>\n{body}</svg>\n",
        escaped(heading)
    );
    Some(svg.into_bytes())
}

/// A text of a class at a place.
pub(super) fn text(x: usize, y: usize, class: &str, text: &str) -> String {
    let text = escaped(text);
    format!("<text x=\"{x}\" y=\"{y}\" class=\"{class}\">{text}</text>\n")
}

/// A text that is no longer than so many characters.
pub(super) fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most - 1).chain(['…']).collect()
}

/// As XML takes it.
pub(super) fn escaped(text: &str) -> String {
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
    "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#7f5fb0", "#8c6d31", "#56b4e9", "#c5b000",
];

/// The colour of a band; `library` counts those before it.
pub(super) fn colour(kind: BandKind, library: usize) -> &'static str {
    match kind {
        BandKind::Tensors => "#2f6db5",
        BandKind::Cached => "#abc9ea",
        BandKind::Library => LIBRARIES[library % LIBRARIES.len()],
        BandKind::OtherLibraries => "#a6761d",
        BandKind::Unknown => "#b0b0b0",
        BandKind::Graph => "#44aa99",
        BandKind::Beyond => "#dcdcdc",
        BandKind::Level => "#2f6db5",
    }
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

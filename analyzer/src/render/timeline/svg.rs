//! The timeline as SVG. The same timeline gives the same bytes.

use super::columns::Span;
use super::layout::{CHART, WIDTH, cut, escaped, text};
use super::panel::Panel;
use crate::views::Timeline;

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

//! The timeline as SVG. The same timeline gives the same bytes.

use super::chart::Chart;
use super::colours::style;
use super::columns::Span;
use super::layout::{CHART, ROW, SIDE, WIDTH, lines, text};
use super::panel::Panel;
use crate::render::markup::escaped;
use crate::views::Timeline;

/// Characters of a line of the heading.
const HEADING: usize = 56;

/// Draws a timeline. `None` if there is nothing to draw.
pub fn timeline_svg(timeline: &Timeline, heading: &str, subtitle: &str) -> Option<Vec<u8>> {
    if timeline.devices.is_empty() {
        return None;
    }
    let span = Span {
        axis: timeline.axis(),
        columns: CHART,
    };
    let (mut y, mut body) = (34, String::new());
    for line in textwrap::wrap(heading, HEADING) {
        body.push_str(&text(SIDE, y, "t", &line));
        y += 32;
    }
    for line in subtitle.lines() {
        y = lines(y - 2, "f", line, &mut body);
    }
    y -= ROW / 2;
    for device in &timeline.devices {
        let panel = Panel {
            chart: Chart::new(timeline, device, &span),
        };
        y = panel.draw(y, &mut body) + 10;
    }
    let style = style();
    let svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{y}\" \
         viewBox=\"0 0 {WIDTH} {y}\" role=\"img\" aria-label=\"{}\">\n<style>{style}</style>\n\
         <rect width=\"{WIDTH}\" height=\"{y}\" class=\"back\"/>\n{body}</svg>\n",
        escaped(heading)
    );
    Some(svg.into_bytes())
}

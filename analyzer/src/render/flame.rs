//! The flamegraph as SVG.

use inferno::flamegraph::{self, Direction, Options, color};

use crate::views::Folded;

/// Draws folded stacks; the same stacks give the same bytes. `None` where there is nothing to draw.
pub fn flamegraph(folded: &Folded, title: &str, subtitle: &str) -> Option<Vec<u8>> {
    let lines: Vec<String> = folded.lines().collect();
    flamegraph_of(&lines, title, subtitle, false)
}

/// The same of lines `oldest;…;newest bytes`, or with two figures, before and after: widths are then those
/// after, and red is what grew. `icicle`: the oldest frames at the top.
pub fn flamegraph_of(
    lines: &[String],
    title: &str,
    subtitle: &str,
    icicle: bool,
) -> Option<Vec<u8>> {
    if lines.is_empty() {
        return None;
    }
    let mut options = Options::default();
    options.title = title.to_owned();
    options.subtitle = Some(subtitle.to_owned()).filter(|subtitle| !subtitle.is_empty());
    options.count_name = "bytes".into();
    options.name_type = "Frame:".into();
    options.deterministic = true;
    options.colors = color::Palette::Basic(color::BasicPalette::Hot);
    options.min_width = 0.1;
    options.image_width = None;
    if icicle {
        options.direction = Direction::Inverted;
    }
    let mut svg = Vec::new();
    flamegraph::from_lines(&mut options, lines.iter().map(String::as_str), &mut svg).ok()?;
    Some(svg)
}

//! The flamegraph as SVG.

use inferno::flamegraph::{self, Options, color};

use crate::views::Folded;

/// Draws folded stacks; the same stacks give the same bytes. `None` where there is nothing to draw.
pub fn flamegraph(folded: &Folded, title: &str, subtitle: &str) -> Option<Vec<u8>> {
    if folded.stacks.is_empty() {
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
    let lines: Vec<String> = folded.lines().collect();
    let mut svg = Vec::new();
    flamegraph::from_lines(&mut options, lines.iter().map(String::as_str), &mut svg).ok()?;
    Some(svg)
}

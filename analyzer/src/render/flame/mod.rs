//! The flamegraph as SVG: inferno's, with gpumem's labels, colours and words.

mod colours;
mod dress;
mod style;
mod tree;
mod words;

use std::str::FromStr as _;

use inferno::flamegraph::{self, Direction, Options, TextTruncateDirection, color};

use crate::render::{bytes, palette};
use crate::views::{Differential, Folded};
use colours::Colours;
use tree::Tree;

pub use colours::ColourBy;

const FRAME_HEIGHT: usize = 19;

/// The appearance of a flamegraph.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlameLook<'a> {
    /// The heading.
    pub title: &'a str,
    /// The line below the title; omitted if it is empty.
    pub subtitle: &'a str,
    /// Whether the oldest frames are at the top.
    pub icicle: bool,
    /// What the colours mean.
    pub colour_by: ColourBy,
}

/// Draws stacks. The same stacks give the same bytes. `None` if there is nothing to draw.
pub fn flamegraph(folded: &Folded, look: &FlameLook<'_>) -> Option<Vec<u8>> {
    let stacks = folded.stacks.iter();
    let tree = Tree::of(stacks.map(|(stack, held)| (stack, 0, *held)));
    drawn(&tree, Colours::By(look.colour_by), look)
}

/// The same for stacks before and after a change. Widths are those after it. Colours show the change of all memory
/// that a frame holds.
pub fn flamegraph_of_change(change: &Differential, look: &FlameLook<'_>) -> Option<Vec<u8>> {
    let stacks = change.stacks.iter();
    let tree = Tree::of(stacks.map(|(stack, (before, after))| (stack, before.bytes, *after)));
    let gone = match change.gone() {
        (0, _) => String::new(),
        (lost, stacks) => format!(
            "no longer live, and not drawn: {} of {}",
            bytes(lost),
            crate::account::many(stacks, "stack", "stacks")
        ),
    };
    let said = [look.subtitle, &gone].into_iter();
    let said: Vec<&str> = said.filter(|said| !said.is_empty()).collect();
    let look = FlameLook {
        subtitle: &said.join(" · "),
        ..*look
    };
    drawn(&tree, Colours::of_change(&tree), &look)
}

fn drawn(tree: &Tree<'_>, colours: Colours, look: &FlameLook<'_>) -> Option<Vec<u8>> {
    let lines = tree.lines();
    if lines.is_empty() {
        return None;
    }
    let mut options = Options::default();
    options.title = look.title.to_owned();
    options.subtitle = Some(look.subtitle.to_owned()).filter(|subtitle| !subtitle.is_empty());
    options.count_name = "bytes".into();
    options.name_type = String::new();
    options.deterministic = true;
    let palette::Colour(r, g, b) = palette::BACKGROUND.light;
    options.bgcolors = Some(color::BackgroundColor::Flat(color::Color { r, g, b }));
    options.search_color = color::SearchColor::from_str(&palette::FOUND.light.to_string()).ok()?;
    options.text_truncate_direction = TextTruncateDirection::Right;
    options.frame_height = FRAME_HEIGHT;
    options.min_width = 0.1;
    options.image_width = None;
    if look.icicle {
        options.direction = Direction::Inverted;
    }
    let top = options.font_size * if options.subtitle.is_some() { 5 } else { 3 };
    let mut svg = Vec::new();
    flamegraph::from_lines(&mut options, lines.iter().map(String::as_str), &mut svg).ok()?;
    let svg = String::from_utf8(svg).ok()?;
    dress::dressed(&svg, tree, colours, top).map(String::into_bytes)
}

#[cfg(test)]
mod tests;

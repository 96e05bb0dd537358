//! The colour of a frame and its meaning.

use super::tree::{Node, Tree};
use crate::render::palette::{self, Pair, css_name};
use crate::replay::Category;
use crate::stacks::FrameKind;

/// What the colours of a flamegraph mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ColourBy {
    /// The kind of a frame: Python, native, …
    #[default]
    Kind,
    /// The category of most of a frame's memory.
    Category,
}

/// What the colours of a picture mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Colours {
    By(ColourBy),
    /// The change of a frame, relative to the largest change of any frame.
    Change {
        most: u64,
    },
}

/// A colour of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameColour {
    All,
    Kind(FrameKind),
    Category(Category),
    Change(i8),
}

impl Colours {
    /// Colours of frames that changed.
    pub fn of_change(tree: &Tree<'_>) -> Self {
        let changes = tree.nodes.iter();
        let changes = changes.map(|node| node.held.bytes.abs_diff(node.before));
        Self::Change {
            most: changes.max().unwrap_or(0),
        }
    }

    /// The colour of a frame.
    pub fn of(self, node: &Node<'_>) -> FrameColour {
        match (self, node.frame) {
            (Self::Change { most }, _) => {
                FrameColour::Change(shade(node.before, node.held.bytes, most))
            }
            (Self::By(_), None) => FrameColour::All,
            (Self::By(ColourBy::Kind), Some(frame)) => FrameColour::Kind(frame.kind),
            (Self::By(ColourBy::Category), _) => FrameColour::Category(node.held.category()),
        }
    }

    /// The colours for the legend, with words, of those that are used.
    pub fn legend(self, used: &[FrameColour]) -> Vec<(FrameColour, &'static str)> {
        let named: Vec<(FrameColour, &'static str)> = match self {
            Self::By(ColourBy::Kind) => FrameKind::ALL
                .map(|kind| (FrameColour::Kind(kind), kind.name()))
                .to_vec(),
            Self::By(ColourBy::Category) => {
                let all = Category::ALL.into_iter().chain([Category::None]);
                all.map(|category| (FrameColour::Category(category), category.name()))
                    .collect()
            }
            Self::Change { .. } => {
                const WORDS: [(i8, &str); 5] = [
                    (-palette::SHADES, "shrunk"),
                    (-palette::SHADES / 4, ""),
                    (0, "the same"),
                    (palette::SHADES / 4, ""),
                    (palette::SHADES, "grown"),
                ];
                return WORDS
                    .map(|(shade, word)| (FrameColour::Change(shade), word))
                    .to_vec();
            }
        };
        let named = named.into_iter();
        named.filter(|(colour, _)| used.contains(colour)).collect()
    }
}

impl FrameColour {
    /// The class of frames with this colour.
    pub fn class(self) -> String {
        match self {
            Self::All => "all".into(),
            Self::Kind(kind) => css_name(kind.name()),
            Self::Category(category) => format!("of-{}", css_name(category.name())),
            Self::Change(0) => "same".into(),
            Self::Change(shade) if shade < 0 => format!("shrunk{}", -shade),
            Self::Change(shade) => format!("grown{shade}"),
        }
    }

    /// The colour for light and dark screens.
    pub fn pair(self) -> Pair {
        match self {
            Self::All => palette::ALL,
            Self::Kind(kind) => palette::of_kind(kind),
            Self::Category(category) => palette::of_category(category),
            Self::Change(shade) => palette::of_change(shade),
        }
    }
}

/// The shade of a change relative to the largest one. It grows with the square root, so that small changes are
/// visible. Only unchanged frames have shade 0.
fn shade(before: u64, after: u64, most: u64) -> i8 {
    let change = after.abs_diff(before);
    if change == 0 {
        return 0;
    }
    let part = (change as f64 / most.max(change) as f64).sqrt();
    let shade = (part * f64::from(palette::SHADES)).ceil() as i8;
    let shade = shade.clamp(1, palette::SHADES);
    if after < before { -shade } else { shade }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_never_white_and_the_greatest_is_full() {
        let shades = [
            ((5, 5), 0),
            ((0, 100), 8),
            ((100, 0), -8),
            ((100, 101), 1),
            ((1 << 40, (1 << 40) - 1), -1),
            ((0, 25), 4),
            ((50, 25), -4),
        ];
        for ((before, after), expected) in shades {
            assert_eq!(shade(before, after, 100), expected, "{before} {after}");
        }
    }
}

//! The colours of frames for light and dark screens: for flamegraphs as SVG, and as CSS variables for the page.

use std::fmt::{self, Display};

use crate::replay::Category;
use crate::stacks::FrameKind;

/// A colour: red, green, blue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Colour(pub u8, pub u8, pub u8);

impl Colour {
    const fn of(rgb: u32) -> Self {
        Self((rgb >> 16) as u8, (rgb >> 8) as u8, rgb as u8)
    }

    /// A mix with another colour, `parts` of `all`.
    fn towards(self, other: Self, parts: u32, all: u32) -> Self {
        let mix = |from: u8, to: u8| {
            let (from, to) = (u32::from(from), u32::from(to));
            ((from * (all - parts) + to * parts + all / 2) / all) as u8
        };
        Self(
            mix(self.0, other.0),
            mix(self.1, other.1),
            mix(self.2, other.2),
        )
    }
}

impl Display for Colour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{:02x}{:02x}{:02x}", self.0, self.1, self.2)
    }
}

/// A colour on a light screen and on a dark one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// On a light screen.
    pub light: Colour,
    /// On a dark screen.
    pub dark: Colour,
}

impl Pair {
    const fn of(light: u32, dark: u32) -> Self {
        Self {
            light: Colour::of(light),
            dark: Colour::of(dark),
        }
    }
}

/// Behind all frames.
pub const BACKGROUND: Pair = Pair::of(0xffffff, 0x14171b);
/// Text on the background.
pub const TEXT: Pair = Pair::of(0x1b1f24, 0xe6e9ec);
/// Less important text.
pub const FAINT: Pair = Pair::of(0x57606a, 0xa2abb5);
/// Text in frames.
pub const FRAME_TEXT: Pair = Pair::of(0x1b1f24, 0xf3f5f7);
/// Lines between frames with the background's colour.
pub const LINE: Pair = Pair::of(0xc4ccd4, 0x4a535d);
/// The root frame.
pub const ALL: Pair = Pair::of(0xe8ebee, 0x2d343c);
/// Search results.
pub const FOUND: Pair = Pair::of(0xff8ad8, 0xa8157c);

/// Frames that did not change.
const SAME: Pair = Pair::of(0xffffff, 0x20262c);
/// Frames that grew most.
const GROWN: Pair = Pair::of(0xf0625a, 0xa8322c);
/// Frames that shrank most.
const SHRUNK: Pair = Pair::of(0x5c9ce6, 0x2a62ad);
/// How many shades of growth there are.
pub const SHADES: i8 = 8;

/// The colour of a kind of frames.
pub fn of_kind(kind: FrameKind) -> Pair {
    match kind {
        FrameKind::Python => Pair::of(0xf7b955, 0x8a560c),
        FrameKind::Library => Pair::of(0xf8e3b6, 0x584722),
        FrameKind::Native => Pair::of(0xa8cbf3, 0x27507e),
        FrameKind::Dispatch => Pair::of(0xdde2e8, 0x3a424b),
        FrameKind::Backward => Pair::of(0xcfb5ee, 0x5d4090),
        FrameKind::Optimizer => Pair::of(0xa3dab4, 0x27653f),
        FrameKind::Note => Pair::of(0xedb9b2, 0x7a3a34),
        FrameKind::Group => Pair::of(0xa5dbdd, 0x1f5f64),
    }
}

/// The colour of frames that hold most of a category.
pub fn of_category(category: Category) -> Pair {
    match category {
        Category::Parameter => Pair::of(0x86aee6, 0x234f8f),
        Category::Gradient => Pair::of(0xcfb5ee, 0x5d4090),
        Category::OptimizerState => Pair::of(0x84d0c1, 0x12665a),
        Category::Activation => Pair::of(0xf5ad78, 0x8f4a14),
        Category::Input => Pair::of(0xbfe08c, 0x4a6a1b),
        Category::Workspace => Pair::of(0xb6c0cb, 0x48535f),
        Category::Temporary => Pair::of(0xf3dd80, 0x6c5a0f),
        Category::Other => Pair::of(0xcfe1f7, 0x3a4d66),
        Category::None => Pair::of(0xdde2e8, 0x3a424b),
    }
}

/// The colour of frames that changed: from [`SHADES`], the largest growth, through 0, unchanged, to −[`SHADES`].
pub fn of_change(shade: i8) -> Pair {
    let end = if shade < 0 { SHRUNK } else { GROWN };
    let (parts, all) = (
        u32::from(shade.unsigned_abs()),
        u32::from(SHADES.unsigned_abs()),
    );
    Pair {
        light: SAME.light.towards(end.light, parts, all),
        dark: SAME.dark.towards(end.dark, parts, all),
    }
}

/// The name of a colour in CSS: lower case, with `-` for blanks.
pub fn css_name(name: &str) -> String {
    name.to_lowercase().replace(' ', "-")
}

/// The colours of kinds and categories as CSS variables such as `--frame-your-python` and `--frame-of-activation`,
/// and the colour of text on them, `--frame-ink`.
pub fn variables() -> String {
    let kinds = FrameKind::ALL.map(|kind| (css_name(kind.name()), of_kind(kind)));
    let categories = Category::ALL.map(|category| {
        let name = format!("of-{}", css_name(category.name()));
        (name, of_category(category))
    });
    let ink = [("ink".to_owned(), FRAME_TEXT)];
    let all: Vec<_> = kinds.into_iter().chain(categories).chain(ink).collect();
    let rules = |of: fn(&Pair) -> Colour| -> String {
        let rules = all
            .iter()
            .map(|(name, pair)| format!("--frame-{name}: {}; ", of(pair)));
        rules.collect()
    };
    format!(
        ":root {{ {}}}\n@media screen and (prefers-color-scheme: dark) {{ :root:not(.printing) {{ {}}} }}\n",
        rules(|pair| pair.light),
        rules(|pair| pair.dark)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative luminance, as WCAG defines it.
    fn luminance(colour: Colour) -> f64 {
        let part = |value: u8| {
            let value = f64::from(value) / 255.0;
            match value <= 0.040_45 {
                true => value / 12.92,
                false => ((value + 0.055) / 1.055).powf(2.4),
            }
        };
        0.2126 * part(colour.0) + 0.7152 * part(colour.1) + 0.0722 * part(colour.2)
    }

    fn contrast(one: Colour, other: Colour) -> f64 {
        let (one, other) = (luminance(one), luminance(other));
        (one.max(other) + 0.05) / (one.min(other) + 0.05)
    }

    #[test]
    fn text_can_be_read_on_each_colour() {
        let kinds = FrameKind::ALL.map(|kind| (format!("{kind:?}"), of_kind(kind)));
        let categories = Category::ALL.map(|of| (format!("{of:?}"), of_category(of)));
        let changes = (-SHADES..=SHADES).map(|shade| (format!("{shade}"), of_change(shade)));
        let others = [("all", ALL), ("found", FOUND)].map(|(of, pair)| (of.to_owned(), pair));
        let none = [("none".to_owned(), of_category(Category::None))];
        let frames = kinds.into_iter().chain(categories).chain(changes);
        for (name, pair) in frames.chain(others).chain(none) {
            let light = contrast(FRAME_TEXT.light, pair.light);
            let dark = contrast(FRAME_TEXT.dark, pair.dark);
            assert!(light >= 4.5, "{name} on light: {light:.2}");
            assert!(dark >= 4.5, "{name} on dark: {dark:.2}");
        }
        for text in [TEXT, FAINT] {
            assert!(contrast(text.light, BACKGROUND.light) >= 4.5);
            assert!(contrast(text.dark, BACKGROUND.dark) >= 4.5);
        }
    }

    #[test]
    fn kinds_and_categories_can_be_told_apart() {
        let apart = |all: &[Pair]| {
            for (index, one) in all.iter().enumerate() {
                for other in &all[index + 1..] {
                    assert!(one.light != other.light && one.dark != other.dark);
                }
            }
        };
        apart(&FrameKind::ALL.map(of_kind));
        apart(&Category::ALL.map(of_category));
        let changes: Vec<Pair> = (-SHADES..=SHADES).map(of_change).collect();
        apart(&changes);
        assert_eq!(of_change(0), SAME);
        assert_eq!(of_change(SHADES), GROWN);
        assert_eq!(of_change(-SHADES), SHRUNK);
    }

    #[test]
    fn the_page_has_the_same_colours() {
        let css = variables();
        assert!(css.contains("--frame-your-python: #f7b955;"), "{css}");
        assert!(
            css.contains("--frame-of-optimizer-state: #12665a;"),
            "{css}"
        );
        assert_eq!(css.matches("--frame-").count(), 2 * (8 + 8 + 1));
    }
}

//! Colours and legend of the picture.

use super::colours::FrameColour;
use crate::render::markup::escaped;
use crate::render::palette::{self, Colour, Pair};

/// Height of the legend's row.
pub(super) const LEGEND: usize = 24;
/// Width of a character of the legend. The font is proportional; this is enough for most fonts.
const CHARACTER: f64 = 6.6;
const SQUARE: f64 = 11.0;

/// The colour of search results, as inferno's program sets it.
pub(super) fn found() -> String {
    let Colour(red, green, blue) = palette::FOUND.light;
    format!("rgb({red},{green},{blue})")
}

/// The rules of CSS for the colours used.
pub(super) fn rules(used: &[FrameColour]) -> String {
    let mut out = String::from(
        ":root { color-scheme: light dark; }\n\
         #title, #subtitle, #legend text, #search, #unzoom, #matched { \
         font-family: system-ui, -apple-system, \"Segoe UI\", \"DejaVu Sans\", sans-serif; }\n\
         #frames text { pointer-events: none; }\n\
         #frames rect { stroke-width: 1; rx: 2px; }\n\
         #frames > *:hover { stroke: none; }\n\
         #frames > *:hover > rect { stroke-width: 2; }\n\
         #search { opacity: 1; text-decoration: underline; }\n\
         #search.show, #unzoom { font-weight: bold; text-decoration: underline; }\n\
         .parent { opacity: 0.6; }\n",
    );
    let is_change = used
        .iter()
        .any(|colour| matches!(colour, FrameColour::Change(_)));
    let line = match is_change {
        true => palette::LINE,
        false => palette::BACKGROUND,
    };
    let scheme = |of: fn(Pair) -> Colour| {
        let (text, faint) = (of(palette::TEXT), of(palette::FAINT));
        format!(
            ":root {{ background: {}; }}\n\
             text {{ fill: {text}; }}\n\
             #subtitle, #details {{ fill: {faint}; }}\n\
             #frames text {{ fill: {}; }}\n\
             #background stop {{ stop-color: {}; }}\n\
             #frames rect {{ stroke: {}; }}\n\
             #frames > *:hover > rect {{ stroke: {text}; }}\n\
             #legend rect {{ stroke: {faint}; }}\n",
            of(palette::BACKGROUND),
            of(palette::FRAME_TEXT),
            of(palette::BACKGROUND),
            of(line),
        )
    };
    out.push_str(&scheme(|pair| pair.light));
    // Selected by colour, so that search results remain visible.
    out.push_str("@media screen and (prefers-color-scheme: dark) {\n");
    out.push_str(&scheme(|pair| pair.dark));
    for colour in used {
        let Pair { light, dark } = colour.pair();
        let class = colour.class();
        out.push_str(&format!(
            ".{class} > rect[fill=\"{light}\"] {{ fill: {dark}; }}\n"
        ));
    }
    out.push_str(&format!(
        "#frames rect[fill=\"{}\"] {{ fill: {}; }}\n}}\n",
        found(),
        palette::FOUND.dark
    ));
    out
}

/// Squares with words. The top of the row is at `y`.
pub(super) fn legend(explained: &[(FrameColour, &str)], y: usize) -> String {
    let mut out = String::from("<g id=\"legend\">");
    let mut x = 10.0;
    let (top, base) = (y as f64, y as f64 + 10.0);
    for (colour, word) in explained {
        let (class, fill) = (colour.class(), colour.pair().light);
        out.push_str(&format!(
            "<g class=\"{class}\"><rect x=\"{x:.1}\" y=\"{top:.1}\" width=\"{SQUARE}\" \
             height=\"{SQUARE}\" fill=\"{fill}\"/>"
        ));
        x += SQUARE + 3.0;
        if !word.is_empty() {
            x += 2.0;
            out.push_str(&format!(
                "<text x=\"{x:.1}\" y=\"{base:.1}\">{}</text>",
                escaped(word)
            ));
            x += word.chars().count() as f64 * CHARACTER + 14.0;
        }
        out.push_str("</g>");
    }
    out.push_str("</g>");
    out
}

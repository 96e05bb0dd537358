//! inferno's picture with gpumem's words and colours.
//!
//! inferno arranges the boxes and provides the program that zooms and searches. It receives the number of each frame
//! as its name. This module replaces the label, title and colour of each box, and adds the style and the legend. It
//! depends on inferno's exact output. If another version writes something else, no picture is made, and a test fails.

use super::colours::{Colours, FrameColour};
use super::style::{LEGEND, legend, rules};
use super::tree::{MARK, Tree};
use super::words::{cut, label, title};
use crate::render::count;
use crate::render::markup::escaped;

/// Width of the frames, which the browser adapts to its window.
const WIDTH: f64 = 1180.0;
/// Width of a character.
const CHARACTER: f64 = 7.1;

/// How inferno's program computes the width of the frames.
const FITTED: &str = "svg.width.baseVal.value - xpad * 2";

/// The picture that inferno drew of a tree. `top` is the top of its frames.
pub(super) fn dressed(svg: &str, tree: &Tree<'_>, colours: Colours, top: usize) -> Option<String> {
    let (head, frames) = svg.split_once("<g>")?;
    let mut used = Vec::new();
    let mut boxes = String::with_capacity(svg.len());
    for group in frames.split("<g>") {
        boxes.push_str(&dressed_box(group, tree, colours, &mut used)?);
    }
    let explained = colours.legend(&used);
    for (colour, _) in &explained {
        if !used.contains(colour) {
            used.push(*colour);
        }
    }
    let mut out = dressed_head(head, tree, &explained, &rules(&used), top)?;
    out.push_str(&boxes);
    (!out.contains(MARK)).then_some(out)
}

/// A box, starting with its title.
fn dressed_box(
    group: &str,
    tree: &Tree<'_>,
    colours: Colours,
    used: &mut Vec<FrameColour>,
) -> Option<String> {
    let (named, rest) = group.strip_prefix("<title>")?.split_once("</title>")?;
    let (name, _) = named.split_once(" (")?;
    let node = match name {
        "all" => tree.nodes.first()?,
        name => tree.named(name)?,
    };
    let (rect, rest) = rest.strip_prefix("<rect ")?.split_once("/>")?;
    let (before_fill, rect) = rect.split_once("fill=\"")?;
    let (_, after_fill) = rect.split_once('"')?;
    let (_, width) = before_fill.split_once("width=\"")?;
    let (width, _) = width.split_once("%\"")?;
    let (text, rest) = rest.strip_prefix("<text ")?.split_once('>')?;
    let (_, rest) = rest.split_once("</text>")?;
    let colour = colours.of(node);
    if !used.contains(&colour) {
        used.push(colour);
    }
    let room = (width.parse::<f64>().ok()? / 100.0 * WIDTH - 3.0) / CHARACTER;
    let whole = tree.nodes.first()?.held.bytes;
    Some(format!(
        "<g class=\"{}\"><title>{}</title><rect {before_fill}fill=\"{}\"{after_fill}/><text {text}>{}</text>{rest}",
        colour.class(),
        escaped(&title(node, whole, colours)),
        colour.pair().light,
        escaped(&cut(&label(node), room.max(0.0) as usize)),
    ))
}

/// Everything before the first box. The frames and the line for details move down to make room for the legend.
fn dressed_head(
    head: &str,
    tree: &Tree<'_>,
    explained: &[(FrameColour, &str)],
    rules: &str,
    top: usize,
) -> Option<String> {
    let (_, height) = head.split_once("height=\"")?;
    let (height, _) = height.split_once('"')?;
    let higher = height.parse::<usize>().ok()? + LEGEND;
    let exact = format!("{} bytes", count(tree.nodes.first()?.held.bytes));
    let down = format!("<text transform=\"translate(0,{LEGEND})\" id=");
    let mut out = head.to_owned();
    for (old, new) in [
        (
            format!("height=\"{height}\" onload"),
            format!("height=\"{higher}\" onload"),
        ),
        (format!(" {height}\" xmlns="), format!(" {higher}\" xmlns=")),
        (
            format!("height=\"{height}\" fill"),
            format!("height=\"{higher}\" fill"),
        ),
        ("</style>".into(), format!("{rules}</style>")),
        // A hidden window has no width, and the width of frames cannot be negative.
        (FITTED.into(), format!("Math.max(1, {FITTED})")),
        ("<text id=\"details\"".into(), format!("{down}\"details\"")),
        ("<text id=\"matched\"".into(), format!("{down}\"matched\"")),
        (
            "<svg id=\"frames\"".into(),
            format!(
                "{}<svg id=\"frames\" y=\"{LEGEND}\"",
                legend(explained, top)
            ),
        ),
    ] {
        let (before, after) = out.split_once(&old)?;
        out = [before, &new, after].concat();
    }
    let at = out.find("<text id=\"title\"")?;
    let at = at + out[at..].find('>')? + 1;
    out.insert_str(at, &format!("<title>{exact}</title>"));
    Some(out)
}

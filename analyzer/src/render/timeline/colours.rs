//! Colours for light and dark screens, the same as the page's.

use std::fmt::Write as _;

use crate::replay::Category;
use crate::views::{Band, BandKind};

/// Classes of filled shapes, with the fill for light and dark screens.
pub(super) const FILLS: [(&str, &str, &str); 35] = [
    ("parameter", "#1f4e8c", "#4a86d8"),
    ("gradient", "#7a4fa3", "#a87fd4"),
    ("optimizer-state", "#1b8a7a", "#2fae9b"),
    ("activation", "#e07b39", "#e58a4d"),
    ("input", "#8bb84b", "#98c45a"),
    ("workspace", "#6b7785", "#7f8b99"),
    ("temporary", "#e5c355", "#d9b94e"),
    ("other", "#6f9fd8", "#86aee0"),
    ("tensors", "#2f6db5", "#4f8fd9"),
    ("cached", "#abc9ea", "#2b4a6d"),
    ("beyond", "#cfd4d9", "#454d56"),
    ("unknown", "#a8a8a8", "#6d757d"),
    ("host", "#7b9e3b", "#8fb84a"),
    ("graph", "#44aa99", "#44aa99"),
    ("other-libraries", "#a6761d", "#a6761d"),
    ("library-0", "#cc79a7", "#cc79a7"),
    ("library-1", "#8c6d31", "#8c6d31"),
    ("library-2", "#c5b000", "#c5b000"),
    ("library-3", "#56b4e9", "#56b4e9"),
    ("library-4", "#d55e00", "#d55e00"),
    ("library-5", "#7f5fb0", "#7f5fb0"),
    ("library-6", "#e69f00", "#e69f00"),
    ("library-7", "#009e73", "#009e73"),
    ("backward", "#8e44ad", "#b57bd0"),
    ("optimizer", "#16a085", "#2fb89d"),
    ("zero_grad", "#f1a340", "#f1a340"),
    ("another-phase", "#7f8c8d", "#8f9ba5"),
    ("forward", "#d5e3f0", "#2a3a4d"),
    ("step", "#e3e8ee", "#2b323a"),
    ("range", "#bcd7c4", "#2f5540"),
    ("scope", "#f0d9b5", "#5d4a2a"),
    ("many", "#b8c0c9", "#5a646e"),
    ("mark", "#8a6d00", "#e0c04a"),
    ("failed", "#b3261e", "#ff8a80"),
    ("back", "#ffffff", "#14171b"),
];

/// Classes of lines.
const STROKES: [(&str, &str, &str); 5] = [
    ("grid", "#d0d7de", "#39414a"),
    ("axis", "#57606a", "#a2abb5"),
    ("nvml", "#1b1f24", "#e6e9ec"),
    ("edge", "#ffffff", "#14171b"),
    ("fold", "#57606a", "#a2abb5"),
];

const PLAIN: &str = "\
svg{max-width:100%;height:auto;background:#fff}\
text{font:13px system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif;fill:#1b1f24}\
.t{font-size:18px;font-weight:600}.h{font-size:15px;font-weight:600}.f{fill:#57606a}.o{fill:#b3261e}\
.e{text-anchor:end}.m{text-anchor:middle}.grid,.axis,.nvml,.fold{fill:none}\
.nvml{stroke-dasharray:4 3}.at-peak{stroke-dasharray:2 3}.edge{stroke-width:1}.slice{fill-opacity:0}\
.slice:hover{fill-opacity:.18}.ring{stroke-width:2}.l{display:none}";

const DARK: &str = "\
svg{background:#14171b}text{fill:#e6e9ec}.f{fill:#a2abb5}.o{fill:#ff8a80}";

/// If the picture is narrow it is scaled down, so its texts are larger.
const NARROW: &str = "\
text{font-size:23px}.t{font-size:30px}.h{font-size:26px}.w{display:none}.l{display:inline}";

/// The picture's style sheet. It avoids CSS variables, because not all viewers of SVG support them.
pub(super) fn style() -> String {
    let mut out = String::from(PLAIN);
    let mut dark = String::from(DARK);
    for (class, light, dim) in FILLS {
        let _ = write!(out, ".{class}{{fill:{light}}}");
        if light != dim {
            let _ = write!(dark, ".{class}{{fill:{dim}}}");
        }
    }
    for (class, light, dim) in STROKES {
        let _ = write!(out, ".{class}{{stroke:{light}}}");
        let _ = write!(dark, ".{class}{{stroke:{dim}}}");
    }
    format!("{out}@media (prefers-color-scheme:dark){{{dark}}}@media (max-width:640px){{{NARROW}}}")
}

/// The class of a band. `library` counts the libraries before it.
pub(super) fn class(band: &Band, library: usize) -> &'static str {
    const LIBRARIES: [&str; 8] = [
        "library-0",
        "library-1",
        "library-2",
        "library-3",
        "library-4",
        "library-5",
        "library-6",
        "library-7",
    ];
    match band.kind {
        BandKind::Tensors => band.category.map_or("tensors", of_category),
        BandKind::Cached => "cached",
        BandKind::Library => LIBRARIES[library % LIBRARIES.len()],
        BandKind::OtherLibraries => "other-libraries",
        BandKind::Unknown => "unknown",
        BandKind::Graph => "graph",
        BandKind::Beyond => "beyond",
        BandKind::Level => "tensors",
    }
}

fn of_category(category: Category) -> &'static str {
    match category {
        Category::Parameter => "parameter",
        Category::Gradient => "gradient",
        Category::OptimizerState => "optimizer-state",
        Category::Activation => "activation",
        Category::Input => "input",
        Category::Workspace => "workspace",
        Category::Temporary => "temporary",
        Category::Other | Category::None => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_category_has_a_colour_in_light_and_dark() {
        let style = style();
        let (light, dark) = style.split_once("@media").expect("two schemes");
        for category in Category::ALL {
            let class = of_category(category);
            assert!(light.contains(&format!(".{class}{{fill:#")), "{class}");
            assert!(dark.contains(&format!(".{class}{{fill:#")), "{class}");
        }
        let classes = FILLS.map(|(class, ..)| class);
        for (at, class) in classes.iter().enumerate() {
            assert!(!classes[at + 1..].contains(class), "{class} twice");
        }
    }
}

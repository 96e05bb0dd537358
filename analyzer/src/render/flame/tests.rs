use std::collections::BTreeMap;

use super::*;
use crate::replay::Category;
use crate::stacks::FrameKind;
use crate::views::{FlameHeld, SharedFrame};

const M: u64 = 1 << 20;

/// Stacks in the form `label|text;…`. Frames whose labels begin with `aten` are native, others Python.
fn folded(stacks: &[(&str, u64, Category)]) -> Folded {
    let stacks = stacks.iter().map(|(stack, bytes, category)| {
        let frames = stack.split(';').map(|frame| {
            let (label, text) = frame.split_once('|').unwrap_or((frame, ""));
            let kind = match label.starts_with("aten") {
                true => FrameKind::Native,
                false => FrameKind::Python,
            };
            SharedFrame::new(label, kind, text)
        });
        let mut held = FlameHeld {
            bytes: *bytes,
            blocks: 2,
            ..FlameHeld::default()
        };
        let index = Category::ALL.iter().position(|of| of == category);
        held.categories[index.expect("one of all")] = *bytes;
        (frames.collect(), held)
    });
    Folded {
        stacks: stacks.collect::<BTreeMap<_, _>>(),
    }
}

fn look(title: &str) -> FlameLook<'_> {
    FlameLook {
        title,
        ..FlameLook::default()
    }
}

fn text(svg: Option<Vec<u8>>) -> String {
    String::from_utf8(svg.expect("a picture")).expect("UTF-8")
}

/// The titles of all boxes with their classes.
fn boxes(svg: &str) -> Vec<(&str, &str)> {
    let (_, frames) = svg.split_once("<svg id=\"frames\"").expect("frames");
    let boxes = frames.split("<g class=\"").skip(1).map(|group| {
        let (class, rest) = group.split_once("\"><title>").expect("a title");
        (class, rest.split_once("</title>").expect("its end").0)
    });
    boxes.collect()
}

#[test]
fn every_box_has_our_words_and_colours() {
    let stacks = [
        ("main (lib/a.py:1)|x = f(\"<&>\")", M, Category::Activation),
        (
            "main (lib/a.py:1)|x = f(\"<&>\");aten::empty",
            3 * M,
            Category::Gradient,
        ),
    ];
    let folded = folded(&stacks);
    let svg = text(flamegraph(&folded, &look("4 MiB")));
    let expected = [
        ("all", "all (4.00 MiB = 4,194,304 bytes, 100 %, 4 blocks)"),
        (
            "your-python",
            "main (a.py:1): x = f(&quot;&lt;&amp;&gt;&quot;) (4.00 MiB = 4,194,304 bytes, 100 %, 4 blocks, in lib)",
        ),
        (
            "native",
            "aten::empty (3.00 MiB = 3,145,728 bytes, 75.0 %, 2 blocks)",
        ),
    ];
    assert_eq!(boxes(&svg), expected);
    assert!(!svg.contains(MARK_FOR_TESTS));
    assert!(svg.contains(">main (a.py:1): x = f(&quot;&lt;&amp;&gt;&quot;)</text>"));
    assert!(svg.contains("var truncate_text_right = true;"));
    for word in ["your Python", "native"] {
        assert_eq!(svg.matches(&format!(">{word}</text>")).count(), 1, "{word}");
    }
    assert!(
        !svg.contains(">backward</text>"),
        "a kind that does not occur"
    );
    assert!(svg.contains("<title>4,194,304 bytes</title>4 MiB</text>"));
    let by_category = FlameLook {
        colour_by: ColourBy::Category,
        icicle: true,
        subtitle: "below",
        ..look("4 MiB")
    };
    let svg = text(flamegraph(&folded, &by_category));
    let classes: Vec<_> = boxes(&svg).into_iter().map(|(class, _)| class).collect();
    assert_eq!(classes, ["all", "of-gradient", "of-gradient"]);
    assert!(svg.contains(", mostly gradient)</title>"));
}

const MARK_FOR_TESTS: char = tree::MARK;

#[test]
fn a_frame_has_the_colour_of_all_that_changed_in_it() {
    let of = Category::Activation;
    let before = folded(&[("a;b;c", 4 * M, of), ("a;d", 4 * M, of), ("gone", M, of)]);
    let after = folded(&[("a;b;c", 8 * M, of), ("a;d", 3 * M, of)]);
    let change = Differential::of(&before, &after);
    let svg = text(flamegraph_of_change(&change, &look("change")));
    let found = boxes(&svg);
    // All: 9 to 11. a: 8 to 11. b and c: 4 to 8. d: 4 to 3.
    for (name, expected) in [
        ("all", "grown6"),
        ("a", "grown7"),
        ("b", "grown8"),
        ("c", "grown8"),
        ("d", "shrunk4"),
    ] {
        let start = format!("{name} (");
        let of = found.iter().find(|(_, title)| title.starts_with(&start));
        assert_eq!(of.map(|(class, _)| *class), Some(expected), "{name}");
    }
    let shrunk = found.iter().find(|(class, _)| *class == "shrunk4");
    assert_eq!(
        shrunk.map(|(_, title)| *title),
        Some(
            "d (3.00 MiB = 3,145,728 bytes, 27.3 %, 2 blocks, before 4.00 MiB = 4,194,304 bytes, \
             change −1.00 MiB = −1,048,576 bytes)"
        )
    );
    assert_eq!(found.len(), 5);
    assert!(svg.contains(">no longer live, and not drawn: 1.00 MiB of 1 stack</text>"));
    let same = text(flamegraph_of_change(
        &Differential::of(&after, &after),
        &look(""),
    ));
    assert!(
        boxes(&same)
            .iter()
            .all(|(class, title)| *class == "same" && title.ends_with("no change)"))
    );
}

#[test]
fn nothing_has_no_picture() {
    assert!(flamegraph(&Folded::default(), &look("nothing")).is_none());
}

//! The texts of a frame: in its box and on hovering.

use super::colours::{ColourBy, Colours};
use super::tree::Node;
use crate::render::{bytes, count};

/// The text in a frame's box, if there is room: `Net.forward (net.py:12): x = self.conv(x)`.
pub(super) fn label(node: &Node<'_>) -> String {
    let Some(frame) = node.frame else {
        return "all".into();
    };
    let label = match folders(&frame.label) {
        Some((name, folders, file)) => {
            // Many files have these names.
            let is_common = file.starts_with("__init__.") || file.starts_with("__main__.");
            let above = folders.rsplit('/').next().filter(|_| is_common);
            let above = above.map_or(String::new(), |above| format!("{above}/"));
            format!("{name} ({above}{file}")
        }
        None => frame.label.clone(),
    };
    match frame.text.as_str() {
        "" => label,
        text => format!("{label}: {text}"),
    }
}

/// The function, the folders and the file of `function (folders/file:line)`; `None` without folders.
fn folders(label: &str) -> Option<(&str, &str, &str)> {
    let (name, place) = label.strip_suffix(')').and(label.rsplit_once(" ("))?;
    let (folders, file) = place.rsplit_once('/')?;
    Some((name, folders, file))
}

/// The title of a frame, shown on hovering: `label (1.50 GiB = 1,610,612,736 bytes, 12.3 %, 42 blocks)`. inferno's
/// program removes the last parenthesised part to get the label, so this part must not contain `(`.
pub(super) fn title(node: &Node<'_>, whole: u64, colours: Colours) -> String {
    let held = node.held;
    let share = 100.0 * held.bytes as f64 / whole.max(1) as f64;
    let share = match (held.bytes == whole, share) {
        (true, _) => "100 %".to_owned(),
        (false, share) if share < 0.1 => "under 0.1 %".to_owned(),
        (false, share) => format!("{share:.1} %"),
    };
    let mut parts = vec![both(held.bytes, ""), share];
    match held.blocks {
        0 => {}
        1 => parts.push("1 block".into()),
        blocks => parts.push(format!("{} blocks", count(blocks))),
    }
    let frame = node.frame.and_then(|frame| folders(&frame.label));
    if let Some((_, folders, _)) = frame {
        parts.push(format!("in {}", folders.replace('(', "[")));
    }
    match colours {
        Colours::By(ColourBy::Kind) => {}
        Colours::By(ColourBy::Category) => {
            parts.push(format!("mostly {}", held.category().name()));
        }
        Colours::Change { .. } => {
            let change = held.bytes.abs_diff(node.before);
            let sign = if held.bytes < node.before { "−" } else { "+" };
            parts.push(format!("before {}", both(node.before, "")));
            parts.push(match change {
                0 => "no change".into(),
                change => format!("change {}", both(change, sign)),
            });
        }
    }
    format!("{} ({})", label(node), parts.join(", "))
}

/// Rounded bytes with a unit, and exact bytes.
fn both(value: u64, sign: &str) -> String {
    let exact = format!("{sign}{} bytes", count(value));
    match value {
        0..1024 => exact,
        _ => format!("{sign}{} = {exact}", bytes(value)),
    }
}

/// The part of a label for which there is room.
pub(super) fn cut(label: &str, room: usize) -> String {
    match (label.chars().count(), room) {
        (_, 0..3) => String::new(),
        (length, room) if length <= room => label.to_owned(),
        (_, room) => label.chars().take(room - 2).chain("..".chars()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_cut_at_their_end() {
        for (room, expected) in [(2, ""), (3, "m.."), (9, "model.p.."), (10, "model.py:1")] {
            assert_eq!(cut("model.py:1", room), expected);
        }
        assert_eq!(cut("größer als", 5), "grö..");
    }

    #[test]
    fn a_box_names_the_file_without_its_folders() {
        for (label, expected) in [
            ("f (a/b/net.py:1)", Some(("f", "a/b", "net.py:1)"))),
            (
                "f.<locals>.g (/net.py)",
                Some(("f.<locals>.g", "", "net.py)")),
            ),
            ("f (net.py:1)", None),
            ("operator/ (int)", None),
            ("aten::div", None),
        ] {
            assert_eq!(folders(label), expected, "{label}");
        }
    }

    #[test]
    fn bytes_are_said_exactly() {
        assert_eq!(both(512, ""), "512 bytes");
        assert_eq!(both(1_610_612_736, "+"), "+1.50 GiB = +1,610,612,736 bytes");
    }
}

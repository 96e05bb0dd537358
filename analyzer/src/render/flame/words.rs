//! What a frame says of itself, in its box and when it is pointed at.

use super::colours::{ColourBy, Colours};
use super::tree::Node;
use crate::render::{bytes, count};

/// What stands in a frame's box, if there is room.
pub(super) fn label(node: &Node<'_>) -> String {
    match node.frame {
        None => "all".into(),
        Some(frame) if frame.text.is_empty() => frame.label.clone(),
        Some(frame) => format!("{}: {}", frame.label, frame.text),
    }
}

/// What a frame says when it is pointed at: `label (1.50 GiB = 1,610,612,736 bytes, 12.3 %, 42 blocks)`. inferno's program
/// takes the last brackets off to have the label, so no `(` may stand in them.
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

/// Bytes as people read them, and exactly.
fn both(value: u64, sign: &str) -> String {
    let exact = format!("{sign}{} bytes", count(value));
    match value {
        0..1024 => exact,
        _ => format!("{sign}{} = {exact}", bytes(value)),
    }
}

/// As much of a label as there is room for.
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
    fn bytes_are_said_exactly() {
        assert_eq!(both(512, ""), "512 bytes");
        assert_eq!(both(1_610_612_736, "+"), "+1.50 GiB = +1,610,612,736 bytes");
    }
}

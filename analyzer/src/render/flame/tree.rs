//! Stacks as a tree, and its frames as lines for inferno.

use crate::views::{FlameFrame, FlameHeld, FlameStack, SharedFrame};

/// The first character of names for inferno. It is a private-use character, so no other name begins with it.
pub(super) const MARK: char = '\u{e000}';

/// A frame and the memory that it and the frames above it hold.
#[derive(Clone, Debug)]
pub(super) struct Node<'a> {
    /// The frame; `None` for the root.
    pub frame: Option<&'a FlameFrame>,
    /// The memory that it holds.
    pub held: FlameHeld,
    /// The bytes that it held before.
    pub before: u64,
    /// The bytes that it holds itself.
    own: u64,
    parent: usize,
}

/// All frames. Each comes after its caller, and callees are sorted by name.
#[derive(Debug)]
pub(super) struct Tree<'a> {
    pub nodes: Vec<Node<'a>>,
}

impl<'a> Tree<'a> {
    /// From sorted stacks with the bytes before and the memory after.
    pub fn of(stacks: impl Iterator<Item = (&'a FlameStack, u64, FlameHeld)>) -> Self {
        let root = Node {
            frame: None,
            held: FlameHeld::default(),
            before: 0,
            own: 0,
            parent: 0,
        };
        let mut nodes = vec![root.clone()];
        let mut path: Vec<(&SharedFrame, usize)> = Vec::new();
        for (stack, before, held) in stacks {
            let same = path.iter().zip(stack);
            let shared = same
                .take_while(|((frame, _), other)| frame == other)
                .count();
            path.truncate(shared);
            for frame in &stack[shared..] {
                let parent = path.last().map_or(0, |(_, node)| *node);
                path.push((frame, nodes.len()));
                nodes.push(Node {
                    frame: Some(frame),
                    parent,
                    ..root.clone()
                });
            }
            let newest = path.last().map_or(0, |(_, node)| *node);
            nodes[newest].own += held.bytes;
            let on_path = path.iter().map(|(_, node)| *node);
            for node in [0].into_iter().chain(on_path) {
                nodes[node].held += held;
                nodes[node].before += before;
            }
        }
        Self { nodes }
    }

    /// A line for each frame that holds bytes itself: the numbers of the frames, the oldest first, and the bytes.
    pub fn lines(&self) -> Vec<String> {
        let digits = format!("{:x}", self.nodes.len()).len();
        let mut paths: Vec<String> = Vec::with_capacity(self.nodes.len());
        let mut lines = Vec::new();
        for (number, node) in self.nodes.iter().enumerate() {
            let mut path = match (number, node.parent) {
                (0, _) | (_, 0) => String::new(),
                (_, parent) => format!("{};", paths[parent]),
            };
            if number > 0 {
                path.push_str(&format!("{MARK}{number:0digits$x}"));
                if node.own > 0 {
                    lines.push(format!("{path} {}", node.own));
                }
            }
            paths.push(path);
        }
        lines
    }

    /// The frame for a name.
    pub fn named(&self, name: &str) -> Option<&Node<'a>> {
        let number = name.strip_prefix(MARK)?;
        self.nodes.get(usize::from_str_radix(number, 16).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stacks::FrameKind;
    use std::collections::BTreeMap;

    fn stack(text: &str) -> FlameStack {
        let frames = text.split(';');
        frames
            .map(|label| SharedFrame::new(label, FrameKind::Python, ""))
            .collect()
    }

    #[test]
    fn frames_hold_what_is_above_them() {
        let stacks = [("a;b", 0, 5), ("a", 2, 1), ("a;b;c", 7, 0), ("b", 0, 4)];
        let stacks = stacks.map(|(text, before, bytes)| {
            let held = FlameHeld {
                bytes,
                ..FlameHeld::default()
            };
            (stack(text), (before, held))
        });
        let stacks = BTreeMap::from(stacks);
        let all = stacks.iter();
        let tree = Tree::of(all.map(|(stack, (before, held))| (stack, *before, *held)));
        let figures = tree.nodes.iter().map(|node| {
            let label = node.frame.map_or("", |frame| &frame.label);
            (label, node.before, node.held.bytes)
        });
        let expected = [
            ("", 9, 10),
            ("a", 9, 6),
            ("b", 7, 5),
            ("c", 7, 0),
            ("b", 0, 4),
        ];
        assert_eq!(figures.collect::<Vec<_>>(), expected);
        let name = |number: u32| format!("{MARK}{number}");
        let lines = [
            format!("{} 1", name(1)),
            format!("{};{} 5", name(1), name(2)),
            format!("{} 4", name(4)),
        ];
        assert_eq!(tree.lines(), lines);
        let named = tree.named(&name(4)).and_then(|node| node.frame);
        assert_eq!(named.map(|frame| frame.label.as_str()), Some("b"));
        assert!(tree.named("a").is_none() && tree.named(&name(5)).is_none());
    }
}

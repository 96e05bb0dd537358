//! Bytes by call: the stacks of a point in time as a tree, with the oldest frames at its root.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::by_stack::{ByStack, DeviceStacks};
use super::module_of::module_path;
use crate::names::NativeFrame;
use crate::replay::{Figure, Replay, StackKey};
use crate::stacks::{Frame, labels, mixed};
use crate::symbols::Symbols;

/// A frame with the live memory that it and the frames that it called allocated.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Node {
    /// Label of the frame: `function (file:line)`, or a native function; in a tree of modules, a module's name. The
    /// root is `all`.
    pub frame: String,
    /// Live bytes at the point in time that were allocated by this frame and the frames that it called.
    pub bytes: u64,
    /// Number of the blocks with these bytes.
    pub blocks: u64,
    /// Part of `bytes` that no child accounts for.
    pub own_bytes: u64,
    /// Frames that this frame called, the largest first; empty if it called no frame that allocated.
    pub children: Vec<Node>,
}

/// A node while stacks are added.
#[derive(Default)]
struct Growing {
    held: Figure,
    own: u64,
    children: BTreeMap<String, Growing>,
}

impl Growing {
    fn add(&mut self, stack: &[String], figure: Figure) {
        let mut node = self;
        node.held += figure;
        for frame in stack {
            node = node.children.entry(frame.clone()).or_default();
            node.held += figure;
        }
        node.own += figure.bytes;
    }

    fn grown(self, frame: String) -> Node {
        let children = self.children.into_iter();
        let mut children: Vec<Node> = children.map(|(frame, node)| node.grown(frame)).collect();
        children.sort_by(|a, b| (b.bytes, &a.frame).cmp(&(a.bytes, &b.frame)));
        Node {
            frame,
            bytes: self.held.bytes,
            blocks: self.held.blocks,
            own_bytes: self.own,
            children,
        }
    }
}

impl Node {
    /// The tree of stacks. The root is the sum of all stacks. If several devices have the level, they are the root's
    /// children. Native frames are omitted if there are Python frames, unless `native`.
    pub fn tree(replay: &Replay, symbols: &mut Symbols, held: &ByStack, native: bool) -> Self {
        let mut root = Growing::default();
        for on in &held.devices {
            let stacks = on
                .figures
                .iter()
                .filter_map(|(stacks, _)| shown_native(replay, *stacks, native))
                .flatten();
            symbols.find(&replay.names, stacks);
            for (stacks, figure) in &on.figures {
                let mut stack = Vec::from_iter(place_of(held, on));
                stack.extend(frames(replay, symbols, *stacks, native));
                root.add(&stack, *figure);
            }
        }
        root.grown("all".into())
    }

    /// The tree by module of PyTorch: `blocks` includes `blocks.0` and `blocks.1`.
    pub fn by_module(replay: &Replay, held: &ByStack) -> Self {
        let mut root = Growing::default();
        for on in &held.devices {
            for (stacks, figure) in &on.figures {
                let mut path = Vec::from_iter(place_of(held, on));
                path.extend(module_path(&replay.names, *stacks));
                if stacks.purpose.is_workspace() {
                    path.push("(cuBLAS workspace)".into());
                }
                root.add(&path, *figure);
            }
        }
        root.grown("all".into())
    }
}

/// The device, if there are several.
fn place_of(held: &ByStack, on: &DeviceStacks) -> Option<String> {
    (held.devices.len() > 1).then(|| crate::account::place(on.device))
}

/// The native frames of a stack that are shown.
fn shown_native(replay: &Replay, stacks: StackKey, native: bool) -> Option<&[NativeFrame]> {
    let names = &replay.names;
    let is_shown = native || !names.py_stacks.contains_key(&stacks.py);
    let (frames, _) = names.native_stacks.get(&stacks.native)?;
    is_shown.then_some(frames)
}

fn frames(replay: &Replay, symbols: &mut Symbols, stacks: StackKey, native: bool) -> Vec<String> {
    let names = &replay.names;
    // Without a native stack, no frames are interleaved and no files are read.
    let has_python =
        names.py_stacks.contains_key(&stacks.py) || names.backwards.contains_key(&stacks.py);
    let stacks = StackKey {
        native: match has_python && !native {
            true => Default::default(),
            false => stacks.native,
        },
        ..stacks
    };
    let frames: Vec<Frame> = mixed(names, symbols, stacks);
    let labels = frames
        .iter()
        .flat_map(|frame| labels(names, symbols, frame));
    labels.map(|label| label.to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(text: &str) -> Vec<String> {
        text.split(';').map(str::to_owned).collect()
    }

    #[test]
    fn a_node_holds_what_it_and_its_children_allocated() {
        let mut root = Growing::default();
        let figure = |bytes, blocks| Figure { bytes, blocks };
        root.add(&stack("main;load"), figure(10, 2));
        root.add(&stack("main;train;forward"), figure(70, 3));
        root.add(&stack("main;train"), figure(5, 1));
        root.add(&stack("main;train;forward"), figure(1, 1));
        let root = root.grown("all".into());
        assert_eq!((root.bytes, root.blocks, root.own_bytes), (86, 7, 0));
        let main = &root.children[0];
        let names: Vec<_> = main
            .children
            .iter()
            .map(|node| node.frame.as_str())
            .collect();
        assert_eq!(names, ["train", "load"]);
        let train = &main.children[0];
        assert_eq!((train.bytes, train.blocks, train.own_bytes), (76, 5, 5));
        assert_eq!(train.children[0].own_bytes, 71);
        sums(&root);
    }

    fn sums(node: &Node) {
        let below: u64 = node.children.iter().map(|child| child.bytes).sum();
        assert_eq!(node.bytes, node.own_bytes + below, "{}", node.frame);
        node.children.iter().for_each(sums);
    }
}

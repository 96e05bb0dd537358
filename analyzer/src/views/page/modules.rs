//! Bytes by module of PyTorch, as a tree with a bounded number of modules.

use std::collections::BTreeMap;

use serde::Serialize;

use super::input::{PageLimits, clip};
use crate::replay::Replay;
use crate::views::{ByStack, Node, modules};

/// A module with the bytes of its parts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PageModule {
    /// Its name, as in `lines --by module`.
    pub name: String,
    /// Its class; empty if it allocated nothing itself.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub class: String,
    /// Bytes of it and of its parts.
    pub bytes: u64,
    /// The number of their blocks.
    pub blocks: u64,
    /// Bytes of the module itself.
    pub own: u64,
    /// The number of omitted modules in this node; 0 if it is a module.
    #[serde(skip_serializing_if = "is_none")]
    pub more: u64,
    /// Its parts, the largest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<PageModule>,
}

fn is_none(more: &u64) -> bool {
    *more == 0
}

/// Modules with at least a minimum of bytes are shown individually. The others of each module are summed.
pub(super) fn module_tree(replay: &Replay, held: &ByStack, limits: PageLimits) -> PageModule {
    let rows = modules(replay, held);
    let classes = rows.into_iter().filter_map(|row| {
        let name = row.module?;
        // A module without a name is shown by its class.
        let class = row
            .class
            .filter(|class| !name.starts_with(class.as_str()))?;
        Some((name, class))
    });
    let classes: BTreeMap<String, String> = classes.collect();
    let tree = Node::by_module(replay, held);
    let mut sizes = Vec::new();
    visit(&tree, &mut |node| sizes.push(node.bytes));
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    let least = sizes.get(limits.rows).map_or(0, |size| size + 1);
    shown(&tree, &classes, least, limits)
}

fn visit(node: &Node, see: &mut dyn FnMut(&Node)) {
    see(node);
    node.children.iter().for_each(|child| visit(child, see));
}

fn shown(
    node: &Node,
    classes: &BTreeMap<String, String>,
    least: u64,
    limits: PageLimits,
) -> PageModule {
    let count = node.children.iter().take_while(|part| part.bytes >= least);
    let (large, small) = node.children.split_at(count.count());
    let mut parts: Vec<PageModule> = large
        .iter()
        .map(|part| shown(part, classes, least, limits))
        .collect();
    let mut rest = PageModule::default();
    for part in small {
        rest.bytes += part.bytes;
        rest.blocks += part.blocks;
        visit(part, &mut |_| rest.more += 1);
    }
    if rest.more > 0 {
        parts.push(rest);
    }
    PageModule {
        name: clip(&node.frame, limits.name),
        class: clip(
            classes.get(&node.frame).map_or("", |class| class),
            limits.name,
        ),
        bytes: node.bytes,
        blocks: node.blocks,
        own: node.own_bytes,
        more: 0,
        parts,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(frame: &str, bytes: u64, children: Vec<Node>) -> Node {
        let below: u64 = children.iter().map(|of| of.bytes).sum();
        Node {
            frame: frame.into(),
            bytes: bytes + below,
            blocks: 1,
            own_bytes: bytes,
            children,
        }
    }

    #[test]
    fn small_modules_are_summed_and_no_byte_is_lost() {
        let attn = node(
            "blocks.0.attn",
            50,
            vec![node("blocks.0.attn.qkv", 3, vec![])],
        );
        let blocks = node("blocks.0", 10, vec![attn, node("blocks.0.norm", 4, vec![])]);
        let root = node("all", 0, vec![blocks, node("(no module)", 2, vec![])]);
        let limits = PageLimits::default();
        let all = shown(&root, &BTreeMap::new(), 0, limits);
        assert_eq!(all.parts[0].parts[0].name, "blocks.0.attn");
        let few = shown(&root, &BTreeMap::new(), 5, limits);
        let block = &few.parts[0];
        assert_eq!((block.bytes, block.own), (67, 10));
        let rest = &block.parts[1];
        assert_eq!((rest.more, rest.bytes, rest.blocks), (1, 4, 1));
        assert_eq!((few.parts[1].more, few.parts[1].bytes), (1, 2));
        let sums = |of: &PageModule| of.own + of.parts.iter().map(|part| part.bytes).sum::<u64>();
        assert_eq!((sums(&few), sums(block)), (few.bytes, block.bytes));
    }
}

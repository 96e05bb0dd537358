//! The tree of calls, as text.

use super::{Align, Style, Table, Terminal, bytes, count, percent};
use crate::account::many;
use crate::views::Node;

/// Which parts of a tree are printed.
#[derive(Clone, Copy, Debug)]
pub struct TreeLimits {
    /// Frames with less than this percentage of the whole are merged.
    pub least_percent: u64,
    /// The kind of nodes.
    pub of: TreeOf,
    /// Whether to print also the middle of runs of frames with only one child.
    pub all: bool,
}

/// The kind of nodes of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeOf {
    /// Frames.
    Calls,
    /// Modules of PyTorch's.
    Modules,
}

impl TreeOf {
    /// The heading; the words for a hidden node and for several; for a small node and for several.
    fn words(self) -> [&'static str; 5] {
        match self {
            Self::Calls => ["calls", "frame", "frames", "smaller call", "smaller calls"],
            Self::Modules => [
                "modules",
                "module",
                "modules",
                "smaller module",
                "smaller modules",
            ],
        }
    }
}

/// Longer runs of frames with only one child are shortened.
const RUN: usize = 4;

/// Precedes the first frame of a run; the frames that it calls are in the lines below it.
const FIRST: &str = "▸ ";
const NEXT: &str = "  ";

/// A tree, starting with its root. The indentation grows only at nodes with several children.
pub fn tree_text(root: &Node, limits: TreeLimits, terminal: Terminal) -> String {
    let (left, right) = (Align::Left, Align::Right);
    let mut printer = Printer {
        table: Table::new(&[right, right, right, left]).elastic(&[3]),
        whole: root.bytes,
        limits,
    };
    let [calls, ..] = limits.of.words();
    let heading = ["bytes", "share", "blocks", calls];
    printer.table.row(heading).style_row(Style::Strong);
    printer.node(root, 0);
    printer.table.render(terminal, 0)
}

struct Printer {
    table: Table,
    whole: u64,
    limits: TreeLimits,
}

impl Printer {
    fn row(&mut self, figures: (u64, u64), depth: usize, text: &str) {
        self.table.row([
            &bytes(figures.0),
            &percent(figures.0, self.whole),
            &count(figures.1),
            &format!("{}{text}", "  ".repeat(depth)),
        ]);
    }

    /// A node and the run of single children that begins with it, followed by the children at the end of the run.
    fn node(&mut self, node: &Node, depth: usize) {
        let mut run = vec![node];
        while let [child] = &run[run.len() - 1].children[..] {
            if run[run.len() - 1].own_bytes > 0 {
                break;
            }
            run.push(child);
        }
        let end = run[run.len() - 1];
        let middle = run.len().saturating_sub(RUN);
        let [_, frame, frames, ..] = self.limits.of.words();
        let hidden = if self.limits.all || middle < 2 {
            0
        } else {
            middle
        };
        for (index, node) in run.iter().enumerate() {
            if index == 1 && hidden > 0 {
                let text = format!("{NEXT}… {}", many(hidden as u64, frame, frames));
                self.row((node.bytes, node.blocks), depth, &text);
                self.table.style(3, Style::Faint);
            }
            if index == 0 || index > hidden {
                let mark = if index == 0 { FIRST } else { NEXT };
                let text = format!("{mark}{}", node.frame);
                self.row((node.bytes, node.blocks), depth, &text);
            }
        }
        self.children(end, depth + 1);
    }

    fn children(&mut self, node: &Node, depth: usize) {
        let enough = |child: &&Node| {
            u128::from(child.bytes) * 100
                >= u128::from(self.whole) * u128::from(self.limits.least_percent)
        };
        let (shown, small): (Vec<&Node>, Vec<&Node>) = node.children.iter().partition(enough);
        if node.own_bytes > 0 && !node.children.is_empty() {
            let blocks: u64 = node.children.iter().map(|child| child.blocks).sum();
            let own = (node.own_bytes, node.blocks.saturating_sub(blocks));
            self.row(own, depth, &format!("{NEXT}by itself"));
            self.table.style(3, Style::Faint);
        }
        for child in shown {
            self.node(child, depth);
        }
        if !small.is_empty() {
            let bytes = small.iter().map(|child| child.bytes).sum();
            let blocks = small.iter().map(|child| child.blocks).sum();
            let [.., one, several] = self.limits.of.words();
            let text = format!("… {}", many(small.len() as u64, one, several));
            self.row((bytes, blocks), depth, &text);
            self.table.style(3, Style::Faint);
        }
    }
}

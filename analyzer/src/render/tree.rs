//! The tree of calls, as text.

use super::{Align, Style, Table, Terminal, bytes, count, percent};
use crate::account::many;
use crate::views::Node;

/// What of a tree is printed.
#[derive(Clone, Copy, Debug)]
pub struct TreeLimits {
    /// Frames with less than this many percent of the whole are counted together.
    pub least_percent: u64,
    /// What the nodes are.
    pub of: TreeOf,
    /// Print also the middle of runs of frames that have but one child.
    pub all: bool,
}

/// What the nodes of a tree are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeOf {
    /// Frames.
    Calls,
    /// Modules of PyTorch's.
    Modules,
}

impl TreeOf {
    /// The heading; one that is hidden, several; one that is small, several.
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

/// Runs of frames with but one child are printed up to this length.
const RUN: usize = 4;

/// Before the first frame of a run; the frames that it calls stand below it.
const FIRST: &str = "▸ ";
const NEXT: &str = "  ";

/// A tree, its root first. Only where calls part does the indentation grow.
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

    /// A node and the run of single children that it begins, then the children where the run ends.
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

//! How the memory of a line splits that has most of a level: by the code below it or its callers, and by module.

use schemars::JsonSchema;
use serde::Serialize;

use super::by_stack::{ByStack, Owners};
use super::lines::Lines;
use crate::attribution::{Line, Split};
use crate::names::Names;
use crate::replay::{Figure, Replay};

/// A part of a line's memory, by another line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SplitLine {
    /// The other line as tables show it: `timm/models/resnet.py:210`.
    pub line: String,
    /// The function that contains the other line.
    pub function: String,
    /// Bytes of the live blocks.
    pub bytes: u64,
    /// Number of the live blocks.
    pub blocks: u64,
}

/// A part of a line's memory, by module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SplitModule {
    /// The module's qualified name, or its class and number: `layer4.0.conv2`, `Block#3`.
    pub module: String,
    /// Bytes of the live blocks.
    pub bytes: u64,
    /// Number of the live blocks.
    pub blocks: u64,
}

/// How the memory of a line splits that has more than 60 % of a level's live memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LineSplit {
    /// The line as tables show it: `train.py:97`.
    pub line: String,
    /// Bytes of the line's live blocks.
    pub bytes: u64,
    /// Live bytes of all lines of the level on the GPU.
    pub live_bytes: u64,
    /// Whether `lines` are callers of the line: the nearest that differ. Otherwise they are the newest lines outside
    /// PyTorch that the line runs.
    pub callers: bool,
    /// The parts by other lines, the largest first; empty if the stacks do not differ in them.
    pub lines: Vec<SplitLine>,
    /// The parts by module, the largest first; empty if there is only one, or if modules have no qualified names.
    pub modules: Vec<SplitModule>,
}

impl LineSplit {
    /// Of the first of `lines`, which are those of one GPU in `held`; `None` if it has no more than 60 %, or if nothing
    /// is known about its parts.
    pub fn largest(replay: &Replay, held: &ByStack, lines: &Lines) -> Option<Self> {
        let (first, whole) = (lines.rows.first()?, lines.bytes());
        let line = first.owner.line();
        let line = line.filter(|_| Split::is_due(first.bytes, whole))?;
        let mut owners = Owners::new(replay, held.level);
        let figures = held.devices.iter().flat_map(|on| &on.figures);
        let figures: Vec<_> = figures
            .filter(|(stacks, _)| owners.of(*stacks).whole() == first.owner)
            .copied()
            .collect();
        let split = Split::of(&replay.names, line, &figures);
        let figure = Figure {
            bytes: first.bytes,
            blocks: first.blocks,
        };
        Self::of(&replay.names, line, figure, whole, &split)
    }

    pub(super) fn of(
        names: &Names,
        line: &Line,
        figure: Figure,
        live_bytes: u64,
        split: &Split,
    ) -> Option<Self> {
        let label = |line: &Line| format!("{}:{}", names.short_path(&line.file), line.line);
        let lines = split.lines.iter().map(|(line, figure)| SplitLine {
            line: label(line),
            function: line.function.clone(),
            bytes: figure.bytes,
            blocks: figure.blocks,
        });
        let modules = split.modules.iter().map(|(module, figure)| SplitModule {
            module: module.clone(),
            bytes: figure.bytes,
            blocks: figure.blocks,
        });
        (!split.is_empty()).then(|| Self {
            line: label(line),
            bytes: figure.bytes,
            live_bytes,
            callers: split.are_callers,
            lines: lines.collect(),
            modules: modules.collect(),
        })
    }
}

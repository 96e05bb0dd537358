//! Bytes by the line that owns them.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use gpumem_capture::{DeviceOrdinal, Level};
use schemars::JsonSchema;
use serde::Serialize;

use super::by_stack::{ByStack, DeviceStacks, Owners};
use super::categories::CategoryBytes;
use super::json::ordinal;
use crate::account::{Phase, phase_of};
use crate::attribution::Owner;
use crate::replay::{Category, Figure, Replay, StackKey};

/// Live memory that one line owns at a point in time, on one GPU and in one phase.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LineRow {
    /// Ordinal of the GPU; `None`: memory of no GPU.
    pub device: Option<u8>,
    /// Absolute path of the source file. Code without a file has the interpreter's name, such as `<string>`. `None`:
    /// no Python line owns the memory.
    pub file: Option<String>,
    /// Path of the file relative to `capture.directory`; `None`: the file is not below that folder.
    pub file_relative: Option<String>,
    /// Line number, from 1; `None`: no Python line owns the memory.
    pub line: Option<u32>,
    /// Qualified name of the function that contains the line; `None`: no Python line owns the memory.
    pub function: Option<String>,
    /// Bytes of the line's live blocks at the point in time; an estimate if stacks are sampled.
    pub bytes: u64,
    /// Number of the line's live blocks at the point in time; an estimate if stacks are sampled.
    pub blocks: u64,
    /// Standard error of `bytes`, in bytes; absent if stacks are not sampled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_bytes: Option<u64>,
    /// Phase of the training in which the memory was allocated; absent if not known, or if the program does not train.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// Bytes of the line's tensors by category, the largest first; absent at levels other than `tensor`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub categories: Vec<CategoryBytes>,
    /// Class of the autograd node that allocated the memory, such as `AddmmBackward0`. The line is that of the node's
    /// forward, or is not known. Absent if no node allocated it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// `true`: the memory is workspaces of cuBLAS. Absent otherwise.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub workspace: bool,
    /// Library that allocated the memory, if no Python line owns it; absent otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub library: Option<String>,
    /// The owner itself.
    #[serde(skip)]
    pub owner: Owner,
}

impl LineRow {
    /// The category with most of its bytes, and the number of its other categories; empty at levels other than
    /// tensors.
    pub fn category(&self) -> String {
        match &self.categories[..] {
            [] => String::new(),
            [only] => only.category.name().to_owned(),
            [largest, others @ ..] => format!("{} +{}", largest.category.name(), others.len()),
        }
    }
}

/// All lines that own memory of a level at a point in time, the largest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lines {
    /// The level.
    pub level: Level,
    /// The lines.
    pub rows: Vec<LineRow>,
    /// Devices whose rows do not sum to the level's own figure: (device, sum, figure).
    pub mismatches: Vec<(DeviceOrdinal, u64, u64)>,
}

impl Lines {
    /// Lines of the stacks in `held`.
    pub fn of(replay: &Replay, held: &ByStack) -> Self {
        let mut lines = Self {
            level: held.level,
            rows: Vec::new(),
            mismatches: Vec::new(),
        };
        let mut owners = Owners::new(replay, held.level);
        for on in &held.devices {
            lines.add(replay, &mut owners, on);
        }
        lines.sort();
        lines
    }

    fn add(&mut self, replay: &Replay, owners: &mut Owners<'_>, on: &DeviceStacks) {
        let mut by_owner: BTreeMap<(Owner, Option<Phase>), Held> = BTreeMap::new();
        for (stacks, figure) in &on.figures {
            let id = (owners.of(*stacks), phase_of(replay, *stacks));
            by_owner.entry(id).or_default().add(*stacks, *figure);
        }
        let sampling = replay.sampling.filter(|_| self.level == Level::TENSOR);
        let sum = by_owner.values().map(|held| held.figure.bytes).sum();
        if let Some(total) = on.total.filter(|total| *total != sum) {
            self.mismatches.push((on.device, sum, total));
        }
        let rows = by_owner.into_iter();
        self.rows.extend(rows.map(|((owner, phase), held)| LineRow {
            error_bytes: sampling.map(|sampling| sampling.standard_error(held.figure)),
            categories: held.categories(),
            ..row(on.device, owner, phase, held.figure)
        }));
    }

    fn sort(&mut self) {
        self.rows.sort_by(|a, b| {
            let order = |row: &LineRow| (Reverse((row.bytes, row.blocks)), row.device, row.phase);
            order(a).cmp(&order(b)).then_with(|| a.owner.cmp(&b.owner))
        });
    }

    /// Keeps only allocations in phases that `wanted` selects.
    pub fn retain(&mut self, wanted: impl Fn(Option<Phase>) -> bool) {
        self.rows.retain(|row| wanted(row.phase));
    }

    /// Keeps the rows that `wanted` selects.
    pub fn retain_rows(&mut self, wanted: impl Fn(&LineRow) -> bool) {
        self.rows.retain(wanted);
    }

    /// The sum of all rows.
    pub fn bytes(&self) -> u64 {
        self.rows.iter().map(|row| row.bytes).sum()
    }
}

/// The bytes of one line.
#[derive(Default)]
struct Held {
    figure: Figure,
    by_category: BTreeMap<Category, u64>,
}

impl Held {
    fn add(&mut self, stacks: StackKey, figure: Figure) {
        self.figure += figure;
        let category = stacks.purpose.category();
        if category != Category::None {
            *self.by_category.entry(category).or_default() += figure.bytes;
        }
    }

    fn categories(&self) -> Vec<CategoryBytes> {
        let by_category = self.by_category.iter();
        let mut all: Vec<_> = by_category
            .map(|(category, bytes)| CategoryBytes {
                category: *category,
                bytes: *bytes,
            })
            .collect();
        all.sort_by_key(|of| (Reverse(of.bytes), of.category));
        all
    }
}

fn row(device: DeviceOrdinal, owner: Owner, phase: Option<Phase>, figure: Figure) -> LineRow {
    let line = owner.line().cloned();
    LineRow {
        device: ordinal(device),
        file: line.as_ref().map(|line| line.file.clone()),
        file_relative: line.as_ref().and_then(|line| line.relative.clone()),
        line: line.as_ref().map(|line| line.line),
        function: line.map(|line| line.function),
        bytes: figure.bytes,
        blocks: figure.blocks,
        error_bytes: None,
        phase,
        categories: Vec::new(),
        node: owner.node().map(str::to_owned),
        workspace: owner.is_workspace(),
        library: owner.library(),
        owner,
    }
}

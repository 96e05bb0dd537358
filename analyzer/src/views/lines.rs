//! Bytes by the line that owns them, and the parts of each line.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use gpumem_capture::{DeviceOrdinal, Level};
use schemars::JsonSchema;
use serde::Serialize;

use super::by_stack::{ByStack, Owners};
use super::categories::{CategoryBytes, by_name_if_any};
use super::json::ordinal;
use crate::account::{Phase, phase_of};
use crate::attribution::Owner;
use crate::names::Names;
use crate::replay::{Category, Figure, Replay, Sampling};

/// Live memory that one line owns at a point in time, on one GPU.
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
    /// Phase of the training in which all the memory was allocated; absent if `parts` differ in it, if it is not known,
    /// or if the program does not train.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// Bytes of the line's tensors by category, the largest first; absent at levels other than `tensor`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub categories: Vec<CategoryBytes>,
    /// Class of the autograd node that allocated all the memory, such as `AddmmBackward0`. The line is that of the
    /// node's forward, or is not known. Absent if no node allocated it, or if `parts` differ in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// `true`: all the memory is workspaces of cuBLAS. Absent otherwise.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub workspace: bool,
    /// Library that allocated the memory, if no Python line owns it; absent otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub library: Option<String>,
    /// The parts of the memory, the largest first: they sum to it. Absent if there is only one.
    #[serde(skip_serializing_if = "is_one")]
    pub parts: Vec<LinePart>,
    /// The owner of all of it.
    #[serde(skip)]
    pub owner: Owner,
    /// What tables show after the owner: the node and cuBLAS, if all parts agree in them.
    #[serde(skip)]
    pub note: String,
}

/// Live memory of a line of one phase, one category, and one autograd node or cuBLAS.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LinePart {
    /// Phase of the training in which the memory was allocated; absent if not known, or if the program does not train.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// Category of the tensors; absent at levels other than `tensor`.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "by_name_if_any"
    )]
    #[schemars(with = "Option<String>")]
    pub category: Option<Category>,
    /// Class of the autograd node that allocated the memory; absent if no node did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// `true`: the memory is workspaces of cuBLAS. Absent otherwise.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub workspace: bool,
    /// Bytes of its live blocks; an estimate if stacks are sampled.
    pub bytes: u64,
    /// Number of its live blocks; an estimate if stacks are sampled.
    pub blocks: u64,
    /// Standard error of `bytes`, in bytes; absent if stacks are not sampled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_bytes: Option<u64>,
    /// The owner of this part.
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

    /// The phase with most of its bytes, and the number of its other phases; empty if no phase is known.
    pub fn phase_text(&self) -> String {
        let mut by_phase: BTreeMap<Option<Phase>, u64> = BTreeMap::new();
        for part in &self.parts {
            *by_phase.entry(part.phase).or_default() += part.bytes;
        }
        let largest = by_phase.iter().max_by_key(|(_, bytes)| **bytes);
        match largest.map(|(phase, _)| phase.map_or("", Phase::word)) {
            None | Some("") => String::new(),
            Some(word) if by_phase.len() == 1 => word.to_owned(),
            Some(word) => format!("{word} +{}", by_phase.len() - 1),
        }
    }

    /// The line as tables show it: `train.py:88`; with the autograd node or cuBLAS if all of its memory is of that.
    pub fn label(&self, names: &Names) -> String {
        self.owner.label(names) + &self.note
    }

    /// Bytes by owner and phase, so that what a backward allocated for a line is apart from what its forward did.
    pub fn by_phase(&self) -> BTreeMap<(Owner, Option<Phase>), Figure> {
        let mut all: BTreeMap<_, Figure> = BTreeMap::new();
        for part in &self.parts {
            let of = all.entry((part.owner.clone(), part.phase)).or_default();
            *of += part.figure();
        }
        all
    }

    fn of(
        device: DeviceOrdinal,
        owner: Owner,
        parts: BTreeMap<PartId, Figure>,
        sampling: Option<Sampling>,
    ) -> Self {
        let error = |figure| sampling.map(|sampling| sampling.standard_error(figure));
        let mut figure = Figure::default();
        parts.values().for_each(|of| figure += *of);
        let mut parts: Vec<LinePart> = parts
            .into_iter()
            .map(|(id, figure)| LinePart::of(id, figure, error(figure)))
            .collect();
        parts.sort_by_key(|part| Reverse((part.bytes, part.blocks)));
        let line = owner.line();
        Self {
            device: ordinal(device),
            file: line.map(|line| line.file.clone()),
            file_relative: line.and_then(|line| line.relative.clone()),
            line: line.map(|line| line.line),
            function: line.map(|line| line.function.clone()),
            bytes: figure.bytes,
            blocks: figure.blocks,
            error_bytes: error(figure),
            phase: common(&parts, |part| part.phase).flatten(),
            categories: categories(&parts),
            node: common(&parts, |part| part.node.clone()).flatten(),
            workspace: parts.iter().all(|part| part.workspace),
            library: owner.library(),
            note: common(&parts, |part| part.owner.note()).unwrap_or_default(),
            parts,
            owner,
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
            mismatches: held.mismatches(),
        };
        let sampling = replay.sampling.filter(|_| held.level == Level::TENSOR);
        let mut owners = Owners::new(replay, held.level);
        for on in &held.devices {
            let mut by_line: BTreeMap<Owner, BTreeMap<PartId, Figure>> = BTreeMap::new();
            for (stacks, figure) in &on.figures {
                let owner = owners.of(*stacks);
                let parts = by_line.entry(owner.clone().whole()).or_default();
                let phase = phase_of(replay, *stacks);
                let id = (owner, phase, stacks.purpose.category());
                *parts.entry(id).or_default() += *figure;
            }
            let rows = by_line.into_iter();
            lines
                .rows
                .extend(rows.map(|(owner, parts)| LineRow::of(on.device, owner, parts, sampling)));
        }
        lines.rows.sort_by(|a, b| {
            let order = |row: &LineRow| (Reverse((row.bytes, row.blocks)), row.device);
            order(a).cmp(&order(b)).then_with(|| a.owner.cmp(&b.owner))
        });
        lines
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

/// What distinguishes the parts of a line.
type PartId = (Owner, Option<Phase>, Category);

impl LinePart {
    fn of((owner, phase, category): PartId, figure: Figure, error_bytes: Option<u64>) -> Self {
        Self {
            phase,
            category: (category != Category::None).then_some(category),
            node: owner.node().map(str::to_owned),
            workspace: owner.is_workspace(),
            bytes: figure.bytes,
            blocks: figure.blocks,
            error_bytes,
            owner,
        }
    }

    /// Its bytes and blocks.
    pub fn figure(&self) -> Figure {
        let (bytes, blocks) = (self.bytes, self.blocks);
        Figure { bytes, blocks }
    }
}

/// Whether a line has no parts that differ. (The signature is serde's.)
#[expect(clippy::ptr_arg, reason = "serde passes the field's type")]
fn is_one(parts: &Vec<LinePart>) -> bool {
    parts.len() < 2
}

/// What all parts have in common; `None`: they differ.
fn common<T: PartialEq>(parts: &[LinePart], of: impl Fn(&LinePart) -> T) -> Option<T> {
    let first = of(parts.first()?);
    parts.iter().all(|part| of(part) == first).then_some(first)
}

fn categories(parts: &[LinePart]) -> Vec<CategoryBytes> {
    let mut by_category: BTreeMap<Category, u64> = BTreeMap::new();
    for part in parts {
        if let Some(category) = part.category {
            *by_category.entry(category).or_default() += part.bytes;
        }
    }
    let by_category = by_category.into_iter();
    let mut all: Vec<_> = by_category
        .map(|(category, bytes)| CategoryBytes { category, bytes })
        .collect();
    all.sort_by_key(|of| (Reverse(of.bytes), of.category));
    all
}

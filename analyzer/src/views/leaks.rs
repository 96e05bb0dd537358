//! Leaks: memory that remains live from round to round, by line.

use std::cmp::{Ordering, Reverse};

use gpumem_capture::{DeviceOrdinal, Level};
use gpumem_judge::Growth;
use schemars::JsonSchema;
use serde::Serialize;

use super::json::by_name;
use super::ledger::Place;
use crate::attribution::Owner;

/// The default minimum age of leaked blocks, in steps.
pub const LEAST_STEPS: u64 = 3;
/// The default number of the last step of the warm-up.
pub const WARM_UP_STEPS: u64 = 1;

/// How long a line's memory is kept, and whether it grows. A block has survived if at least `least_steps` steps ended
/// since it was allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// The line's bytes at the ends of steps grow: see [`gpumem_judge::Growth`].
    Growing,
    /// Blocks from after the warm-up survived, and the line's bytes do not grow: caches, ring buffers. Also all
    /// workspaces of cuBLAS.
    Cache,
    /// All blocks that survived are from the warm-up, as parameters are, or from one step and an optimizer, as its
    /// state is.
    WarmUp,
    /// No block survived.
    EndOnly,
}

impl Class {
    /// All classes, in the order of tables.
    pub const ALL: [Self; 4] = [Self::Growing, Self::Cache, Self::WarmUp, Self::EndOnly];
}

/// Memory that one line owns at the point in time, and how it changed from step to step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LeakRow {
    /// Ordinal of the GPU; `None`: memory of no GPU.
    pub device: Option<u8>,
    /// The line that owns the memory.
    #[serde(flatten)]
    pub place: Place,
    /// Library that allocated the memory, if no Python line owns it; absent otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub library: Option<String>,
    /// How long the memory is kept, and whether it grows; `None`: no step had ended.
    pub class: Option<Class>,
    /// Bytes of the line's live blocks at the point in time.
    pub bytes: u64,
    /// Number of the line's live blocks at the point in time.
    pub blocks: u64,
    /// Bytes of those blocks that survived at least `least_steps` steps.
    pub survived_bytes: u64,
    /// Number of those blocks that survived at least `least_steps` steps.
    pub survived_blocks: u64,
    /// Step, counted from 1, in which the oldest live block was allocated; `None`: before the first step that a
    /// bounded capture has.
    pub oldest_step: Option<u64>,
    /// Step, counted from 1, in which the newest live block was allocated; `None`: before the first step that a
    /// bounded capture has.
    pub newest_step: Option<u64>,
    /// Growth of the line's bytes per step after the warm-up: the slope of the straight line that fits its bytes at
    /// the ends of steps best. Negative: the line shrinks.
    pub bytes_per_step: i64,
    /// The smallest of `bytes_per_step` and the slopes of each third of these steps.
    pub bytes_per_step_least: i64,
    /// The largest of `bytes_per_step` and the slopes of each third of these steps.
    pub bytes_per_step_most: i64,
    /// The owner itself.
    #[serde(skip)]
    pub owner: Owner,
}

/// The line whose small tensor is the last of each step and stays live together with much larger tensors of the step.
/// It probably keeps them alive, as a kept loss does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LeakHolder {
    /// Ordinal of the GPU; `None`: memory of no GPU.
    pub device: Option<u8>,
    /// The line that allocates the small tensor.
    #[serde(flatten)]
    pub place: Place,
    /// Number of the line's live blocks at the point in time.
    pub blocks: u64,
    /// Live bytes of the other growing lines on this GPU, which the tensors of this line probably keep alive.
    pub held_bytes: u64,
    /// The owner itself.
    #[serde(skip)]
    pub owner: Owner,
}

impl LeakRow {
    /// How the line's bytes change; `None`: the line is not growing.
    pub fn growth(&self) -> Option<Growth> {
        (self.class == Some(Class::Growing)).then_some(Growth {
            is_growth: true,
            per_round: self.bytes_per_step,
            range: (self.bytes_per_step_least, self.bytes_per_step_most),
        })
    }

    /// The order of rows: by class, growing ones by growth, then the largest first.
    pub(super) fn in_order(&self, other: &Self) -> Ordering {
        let size = |row: &Self| Reverse((row.bytes, row.blocks));
        let grown = |row: &Self| match row.class {
            Some(Class::Growing) => row.bytes_per_step,
            _ => 0,
        };
        let class = self.class.cmp(&other.class);
        class
            .then(grown(other).cmp(&grown(self)))
            .then(size(self).cmp(&size(other)))
            .then_with(|| (self.device, &self.owner).cmp(&(other.device, &other.owner)))
    }
}

impl LeakHolder {
    /// Moves the holder's row before the rows of the lines that it keeps alive.
    pub(super) fn come_first(&self, rows: &mut Vec<LeakRow>) {
        let is_growing = |row: &LeakRow| row.class == Some(Class::Growing);
        let is_its = |row: &LeakRow| row.device == self.device && row.owner == self.owner;
        let first = rows.iter().position(is_growing);
        let own = rows.iter().position(|row| is_growing(row) && is_its(row));
        if let (Some(first), Some(own)) = (first, own) {
            let row = rows.remove(own);
            rows.insert(first, row);
        }
    }
}

/// Memory that is live at a point in time, by line, with its age in steps. By default the point is the end of the last
/// step. Without steps, rounds of a loop of the program count as steps: see `round`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Leaks {
    /// Level at which bytes are counted: `tensor`, `driver` or `host`.
    #[serde(serialize_with = "by_name")]
    #[schemars(with = "String")]
    pub level: Level,
    /// Number of steps, or of rounds, that had ended at the point in time; 0: the capture has neither.
    pub steps: u64,
    /// The line at which a round of the loop begins whose rounds count as steps; absent if steps count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub round: Option<Place>,
    /// Number of the last step of the warm-up.
    pub warm_up_steps: u64,
    /// Number of steps that must have ended since a block was allocated for it to count as survived.
    pub least_steps: u64,
    /// Sum of `bytes` of all rows.
    pub bytes: u64,
    /// One row per line and GPU, by class. Growing lines come first, by growth, but a `holder` precedes them; the rows
    /// of the other classes are by size.
    pub rows: Vec<LeakRow>,
    /// The line whose tensors probably keep the memory of other growing lines alive; absent if no such line was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holder: Option<LeakHolder>,
    /// Devices whose rows do not sum to the level's own figure: (device, sum, figure).
    #[serde(skip)]
    pub mismatches: Vec<(DeviceOrdinal, u64, u64)>,
    /// The owner that `round` was made from.
    #[serde(skip)]
    pub begins: Option<Owner>,
}

impl Leaks {
    /// The growth of all lines that grow, and their number; `None`: no line grows.
    pub fn growth(&self) -> Option<(u64, Growth)> {
        let growing = self.rows.iter().filter_map(LeakRow::growth);
        let sum = growing.fold((0, Growth::default()), |(lines, mut sum), of| {
            sum += of;
            (lines + 1, sum)
        });
        Some(sum).filter(|(lines, _)| *lines > 0)
    }

    /// The number of steps or rounds from which growth is reported.
    pub fn needed(&self) -> u64 {
        let young = self.warm_up_steps.saturating_add(self.least_steps);
        young.saturating_add(1)
    }
}

//! Leaks: memory that remains live from step to step, by line.

use std::cmp::{Ordering, Reverse};

use gpumem_capture::{DeviceOrdinal, Level};
use schemars::JsonSchema;
use serde::Serialize;

use super::json::by_name;
use super::ledger::Place;
use crate::attribution::Owner;

/// The least age of leaked blocks in steps, by default.
pub const LEAST_STEPS: u64 = 3;
/// The last step of the warm-up, by default.
pub const WARM_UP_STEPS: u64 = 1;

/// How long a line's memory is kept, and whether it grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// Allocated after the warm-up, and more of it after each stretch of steps.
    Growing,
    /// Allocated after the warm-up and kept, but no more than before: caches, ring buffers, workspaces.
    Cache,
    /// Allocated in the warm-up and kept since: parameters. Or an optimizer's state, whichever step allocated it.
    WarmUp,
    /// Younger than the requested age.
    EndOnly,
}

impl Class {
    /// All, in the order of tables.
    pub const ALL: [Self; 4] = [Self::Growing, Self::Cache, Self::WarmUp, Self::EndOnly];
}

/// What a line holds, and for how long.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LeakRow {
    /// Device ordinal; `None` for memory of no device.
    pub device: Option<u8>,
    /// The line.
    #[serde(flatten)]
    pub place: Place,
    /// The library that allocated, where no Python line did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub library: Option<String>,
    /// What kind; `None` where no step ended.
    pub class: Option<Class>,
    /// Bytes alive.
    pub bytes: u64,
    /// Blocks alive.
    pub blocks: u64,
    /// Bytes of those that have the requested age.
    pub survived_bytes: u64,
    /// How many those are.
    pub survived_blocks: u64,
    /// The step that allocated the oldest; `None`: before the first step that a bounded capture has.
    pub oldest_step: Option<u64>,
    /// The step that allocated the newest.
    pub newest_step: Option<u64>,
    /// By how much the line's bytes rose from step to step after the warm-up: the slope of the straight line
    /// that fits best.
    pub bytes_per_step: i64,
    /// The same.
    #[serde(skip)]
    pub owner: Owner,
}

/// The line whose small tensor of each step comes last, while much larger ones of its step stay as well: what a kept loss is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LeakHolder {
    /// Device ordinal; `None` for memory of no device.
    pub device: Option<u8>,
    /// The line.
    #[serde(flatten)]
    pub place: Place,
    /// Blocks of it that are alive.
    pub blocks: u64,
    /// What the other lines have that grow.
    pub held_bytes: u64,
    /// The same line.
    #[serde(skip)]
    pub owner: Owner,
}

impl LeakRow {
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
    /// Moves its row before those that it keeps alive.
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

/// What was alive at a moment, by line, with how it came there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Leaks {
    /// Which level.
    #[serde(serialize_with = "by_name")]
    #[schemars(with = "String")]
    pub level: Level,
    /// Steps that had ended.
    pub steps: u64,
    /// The last step of the warm-up.
    pub warm_up_steps: u64,
    /// The least age of blocks that survived, in steps.
    pub least_steps: u64,
    /// Bytes of all rows.
    pub bytes: u64,
    /// The lines: those that grow most first, then the largest of each class.
    pub rows: Vec<LeakRow>,
    /// Where graphs are kept: the line whose tensor probably keeps the rest of what grows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holder: Option<LeakHolder>,
    /// For each device the level's own figure, where the rows do not sum to it: (device, sum, figure).
    #[serde(skip)]
    pub mismatches: Vec<(DeviceOrdinal, u64, u64)>,
}

//! Sizes of blocks: allocated ones, and those that were live at a point in time.

use std::collections::BTreeMap;

use gpumem_capture::{DeviceOrdinal, Level, Record};
use schemars::JsonSchema;
use serde::Serialize;

use super::block_events::{BlockEvents, Kept};
use super::json::{self, by_name};
use super::tally::{Change, Tally};
use crate::replay::{At, Block, Effect, Replay};

/// Blocks of one size or of a range of sizes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SizeRow {
    /// Smallest block size of the row in bytes: a power of two or 0, or with `--exact` the same as `to_bytes`.
    pub from_bytes: u64,
    /// Largest block size of the row in bytes, included.
    pub to_bytes: u64,
    /// Number of allocations of these sizes over the whole run, or since the first record of a bounded capture.
    pub allocations: u64,
    /// Sum of the bytes of these allocations.
    pub allocated_bytes: u64,
    /// Number of blocks of these sizes that are live at the point in time.
    pub live_blocks: u64,
    /// Sum of the bytes of these live blocks.
    pub live_bytes: u64,
}

/// Blocks of one GPU by size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SizesOn {
    /// Ordinal of the GPU; `None`: memory of no GPU.
    pub device: Option<u8>,
    /// Level at which blocks are counted: `tensor`, `driver` or `host`.
    #[serde(serialize_with = "by_name")]
    #[schemars(with = "String")]
    pub level: Level,
    /// Number of allocations over the whole run, or since the first record of a bounded capture.
    pub allocations: u64,
    /// Sum of the bytes of these allocations.
    pub allocated_bytes: u64,
    /// Number of blocks that are live at the point in time.
    pub live_blocks: u64,
    /// Sum of the bytes of these live blocks.
    pub live_bytes: u64,
    /// One row per size or range of sizes, the smallest first. Rows without a block are left out.
    pub rows: Vec<SizeRow>,
    /// The device itself.
    #[serde(skip)]
    pub ordinal: DeviceOrdinal,
}

/// The maximum number of exact sizes with separate rows. Further sizes are grouped by powers of two.
const MOST: usize = 1 << 16;

/// The sizes of a row: the smallest and the largest.
type Span = (u64, u64);

/// Follows the blocks of a capture.
pub struct Histogram<'a> {
    block_events: BlockEvents<'a>,
    moment: At,
    exact: bool,
    spans: Kept<Span>,
    devices: BTreeMap<DeviceOrdinal, Tally<Span>>,
}

impl<'a> Histogram<'a> {
    /// For blocks that are live at a point in time. `exact`: whether each size has a separate row.
    pub fn new(block_events: BlockEvents<'a>, moment: At, exact: bool) -> Self {
        Self {
            spans: Kept::of(block_events.level()),
            block_events,
            moment,
            exact,
            devices: BTreeMap::new(),
        }
    }

    /// Observes a record after the replay has.
    pub fn observe(&mut self, replay: &Replay, record: Record<'_>, effect: Effect) {
        if let Record::State(..) = record {
            return self.restore(replay);
        }
        let Some(seen) = self.block_events.see(replay, record, effect) else {
            return;
        };
        let device = seen.event.device;
        let counts = replay.until().is_none_or(|until| seen.seq <= until);
        if seen.is_taken {
            self.change(device, seen.block, seen.is_live, counts);
        }
        let row = replay.levels.get(&(device, self.block_events.level()));
        if row.is_some_and(|row| row.peak.0 == seen.seq) {
            self.devices.entry(device).or_default().peak();
        }
    }

    fn change(&mut self, device: DeviceOrdinal, block: Block, is_live: bool, counts: bool) {
        let on = self.devices.entry(device).or_default();
        let exact = self.exact && on.len() < MOST;
        let (span, is_new) = if is_live {
            let (span, is_back) = self.spans.came(block, span(on, block.bytes, exact));
            (span, !is_back)
        } else {
            let Some(span) = self.spans.went(block) else {
                return;
            };
            (span, false)
        };
        let change = Change {
            bytes: block.bytes,
            is_live,
            is_new,
            counts,
        };
        on.change(span, change);
    }

    /// Applies the state that a bounded capture has instead of the first records: live blocks are known, allocations
    /// are not.
    fn restore(&mut self, replay: &Replay) {
        self.devices.clear();
        self.spans.clear();
        let level = self.block_events.level();
        for ((device, _), row) in replay.levels.iter().filter(|((_, of), _)| *of == level) {
            for (_, block) in row.live_blocks() {
                if self.block_events.takes(replay, *device, block) {
                    self.change(*device, block, true, true);
                }
            }
        }
        self.devices.values_mut().for_each(Tally::forget_allocated);
    }

    /// The rows of each device, after all records.
    pub fn sizes(self) -> Vec<SizesOn> {
        let (moment, level) = (self.moment, self.block_events.level());
        let devices = self.devices.into_iter();
        devices
            .map(|(ordinal, device)| sizes_on(device, ordinal, level, moment))
            .filter(|on| !on.rows.is_empty())
            .collect()
    }
}

/// The row for blocks of a size.
fn span(on: &Tally<Span>, bytes: u64, exact: bool) -> Span {
    if exact || on.has(&(bytes, bytes)) {
        return (bytes, bytes);
    }
    match bytes.checked_ilog2() {
        None => (0, 0),
        Some(power) => (1 << power, u64::MAX >> (63 - power)),
    }
}

fn sizes_on(device: Tally<Span>, ordinal: DeviceOrdinal, level: Level, moment: At) -> SizesOn {
    let rows = device
        .rows(moment)
        .map(|((from, to), allocated, live)| SizeRow {
            from_bytes: from,
            to_bytes: to,
            allocations: allocated.blocks,
            allocated_bytes: allocated.bytes,
            live_blocks: live.blocks,
            live_bytes: live.bytes,
        });
    let rows: Vec<SizeRow> = rows
        .filter(|row| row.allocations > 0 || row.live_blocks > 0)
        .collect();
    let sum = |of: fn(&SizeRow) -> u64| rows.iter().map(of).sum();
    SizesOn {
        device: json::ordinal(ordinal),
        level,
        allocations: sum(|row| row.allocations),
        allocated_bytes: sum(|row| row.allocated_bytes),
        live_blocks: sum(|row| row.live_blocks),
        live_bytes: sum(|row| row.live_bytes),
        rows,
        ordinal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_of_two_begin_a_row_and_what_is_below_the_next_ends_it() {
        let device = Tally::default();
        for (bytes, span) in [
            (0, (0, 0)),
            (1, (1, 1)),
            (2, (2, 3)),
            (3, (2, 3)),
            (4, (4, 7)),
            (1 << 20, (1 << 20, (2 << 20) - 1)),
            ((1 << 20) - 1, (1 << 19, (1 << 20) - 1)),
            (u64::MAX, (1 << 63, u64::MAX)),
        ] {
            assert_eq!(super::span(&device, bytes, false), span);
            assert_eq!(super::span(&device, bytes, true), (bytes, bytes));
        }
    }
}

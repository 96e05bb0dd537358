//! Allocations and frees of each thread, and its blocks that were live at a point in time.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use gpumem_capture::{DeviceOrdinal, Level, Record, ThreadId};
use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::Serialize;

use super::block_events::{BlockEvents, Kept};
use super::json::{self, by_name};
use super::tally::{Change, Tally};
use crate::replay::{At, Effect, Figure, Replay};

/// Allocations and frees of one thread on one GPU, or the sum over all threads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ThreadRow {
    /// Thread ID in the system; `None`: the allocations are older than the records of a bounded capture, or the row is
    /// the sum.
    pub thread: Option<u32>,
    /// Name of the thread when it recorded its first event; `None`: not known.
    pub name: Option<String>,
    /// Number of allocations by the thread over the whole run, or since the first record of a bounded capture.
    pub allocations: u64,
    /// Sum of the bytes of these allocations.
    pub allocated_bytes: u64,
    /// Number of blocks that the thread freed, whichever thread allocated them.
    pub frees: u64,
    /// Sum of the bytes of the blocks that the thread freed.
    pub freed_bytes: u64,
    /// Number of blocks that the thread allocated and that are live at the point in time.
    pub live_blocks: u64,
    /// Sum of the bytes of these live blocks.
    pub live_bytes: u64,
}

/// The threads that allocated or freed memory of one GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ThreadsOn {
    /// Ordinal of the GPU; `None`: memory of no GPU.
    pub device: Option<u8>,
    /// Level at which blocks are counted: `tensor`, `driver` or `host`.
    #[serde(serialize_with = "by_name")]
    #[schemars(with = "String")]
    pub level: Level,
    /// One row per thread, the one with the most live bytes first.
    pub rows: Vec<ThreadRow>,
    /// Sum of all rows; its `thread` and `name` are `None`.
    pub sum: ThreadRow,
    /// The device itself.
    #[serde(skip)]
    pub ordinal: DeviceOrdinal,
}

/// The thread that allocated a block; `None` if it is not known.
type Allocator = Option<ThreadId>;

#[derive(Debug, Default)]
struct Device {
    allocated: Tally<Allocator>,
    freed: FxHashMap<Allocator, Figure>,
}

/// Follows the blocks of a capture.
pub struct ThreadWatch<'a> {
    block_events: BlockEvents<'a>,
    moment: At,
    allocators: Kept<Allocator>,
    devices: BTreeMap<DeviceOrdinal, Device>,
}

impl<'a> ThreadWatch<'a> {
    /// For blocks that are live at a point in time.
    pub fn new(block_events: BlockEvents<'a>, moment: At) -> Self {
        Self {
            allocators: Kept::of(block_events.level()),
            block_events,
            moment,
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
        let on = self.devices.entry(seen.event.device).or_default();
        let (thread, bytes) = (Some(seen.event.thread), seen.block.bytes);
        if seen.is_taken && seen.is_live {
            let (allocator, is_back) = self.allocators.came(seen.block, thread);
            on.change(replay, seen.seq, allocator, (bytes, true, !is_back));
            if is_back {
                let freed = on.freed.entry(thread).or_default();
                freed.bytes = freed.bytes.saturating_sub(bytes);
                freed.blocks = freed.blocks.saturating_sub(1);
            }
        } else if seen.is_taken
            && let Some(allocator) = self.allocators.went(seen.block)
        {
            on.change(replay, seen.seq, allocator, (bytes, false, false));
            *on.freed.entry(thread).or_default() += Figure { bytes, blocks: 1 };
        }
        let level = self.block_events.level();
        let row = replay.levels.get(&(seen.event.device, level));
        if row.is_some_and(|row| row.peak.0 == seen.seq) {
            on.allocated.peak();
        }
    }

    /// Applies the state that a bounded capture has instead of the first records: live blocks are known, their
    /// threads are not.
    fn restore(&mut self, replay: &Replay) {
        self.devices.clear();
        self.allocators.clear();
        let level = self.block_events.level();
        for ((device, _), row) in replay.levels.iter().filter(|((_, of), _)| *of == level) {
            let on = self.devices.entry(*device).or_default();
            for (_, block) in row.live_blocks() {
                if self.block_events.takes(replay, *device, block) {
                    self.allocators.came(block, None);
                    on.change(replay, block.seq, None, (block.bytes, true, false));
                }
            }
        }
    }

    /// The threads of each device, after all records.
    pub fn threads(self) -> Vec<ThreadsOn> {
        let (first, level) = (self.block_events.first(), self.block_events.level());
        let devices = self.devices.into_iter();
        devices
            .map(|(ordinal, device)| device.rows(first, ordinal, level, self.moment))
            .filter(|on| !on.rows.is_empty())
            .collect()
    }
}

impl Device {
    fn change(
        &mut self,
        replay: &Replay,
        seq: gpumem_capture::Seq,
        allocator: Allocator,
        (bytes, is_live, is_new): (u64, bool, bool),
    ) {
        let change = Change {
            bytes,
            is_live,
            is_new,
            counts: replay.until().is_none_or(|until| seq <= until),
        };
        self.allocated.change(allocator, change);
    }

    fn rows(self, first: &Replay, ordinal: DeviceOrdinal, level: Level, moment: At) -> ThreadsOn {
        let mut rows: BTreeMap<Allocator, ThreadRow> = BTreeMap::new();
        for (thread, allocated, live) in self.allocated.rows(moment) {
            let row = rows.entry(thread).or_default();
            (row.allocations, row.allocated_bytes) = (allocated.blocks, allocated.bytes);
            (row.live_blocks, row.live_bytes) = (live.blocks, live.bytes);
        }
        for (thread, freed) in self.freed {
            let row = rows.entry(thread).or_default();
            (row.frees, row.freed_bytes) = (freed.blocks, freed.bytes);
        }
        for (thread, row) in &mut rows {
            row.thread = thread.map(|thread| thread.0);
            row.name = thread.and_then(|thread| first.names.threads.get(&thread).cloned());
        }
        let mut rows: Vec<ThreadRow> = rows.into_values().collect();
        rows.retain(|row| row.allocations + row.frees + row.live_blocks > 0);
        rows.sort_by_key(|row| Reverse((row.live_bytes, row.allocated_bytes, row.freed_bytes)));
        let sum = |of: fn(&ThreadRow) -> u64| rows.iter().map(of).sum();
        ThreadsOn {
            device: json::ordinal(ordinal),
            level,
            sum: ThreadRow {
                allocations: sum(|row| row.allocations),
                allocated_bytes: sum(|row| row.allocated_bytes),
                frees: sum(|row| row.frees),
                freed_bytes: sum(|row| row.freed_bytes),
                live_blocks: sum(|row| row.live_blocks),
                live_bytes: sum(|row| row.live_bytes),
                ..ThreadRow::default()
            },
            rows,
            ordinal,
        }
    }
}

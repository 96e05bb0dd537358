//! Allocations of some threads by stack: all, or those that were live at a point in time.

use std::collections::BTreeMap;

use gpumem_capture::{DeviceOrdinal, Record, ThreadId};

use super::block_events::{BlockEvents, Kept};
use super::by_stack::{ByStack, DeviceStacks};
use super::tally::{Change, Tally};
use crate::replay::{At, Effect, Figure, Replay, StackKey};

/// Follows a capture.
pub struct ThreadStacks<'a> {
    threads: Vec<ThreadId>,
    block_events: BlockEvents<'a>,
    moment: At,
    /// The stacks of blocks of these threads.
    own: Kept<StackKey>,
    devices: BTreeMap<DeviceOrdinal, Tally<StackKey>>,
}

impl<'a> ThreadStacks<'a> {
    /// For the threads of a name or a number. Categories are merged.
    pub fn new(threads: Vec<ThreadId>, block_events: BlockEvents<'a>, moment: At) -> Self {
        Self {
            threads,
            own: Kept::of(block_events.level()),
            block_events,
            moment,
            devices: BTreeMap::new(),
        }
    }

    /// Observes a record after the replay has.
    pub fn observe(&mut self, replay: &Replay, record: Record<'_>, effect: Effect) {
        if let Record::State(..) = record {
            // The thread of blocks from the start of a bounded capture is not known.
            self.devices.clear();
            self.own.clear();
            return;
        }
        let Some(seen) = self.block_events.see(replay, record, effect) else {
            return;
        };
        let tally = self.devices.entry(seen.event.device).or_default();
        let stacks = replay.stacks(seen.block.key).without_category();
        // A failed free restores a block. Another thread may have called it.
        let came = seen.is_taken && seen.is_live;
        let change = if came && self.own.is_freed(seen.block) {
            let (stacks, _) = self.own.came(seen.block, stacks);
            Some((stacks, true, false))
        } else if came && self.threads.contains(&seen.event.thread) {
            self.own.came(seen.block, stacks);
            Some((stacks, true, true))
        } else if seen.is_taken && !seen.is_live {
            let stacks = self.own.went(seen.block);
            stacks.map(|stacks| (stacks, false, false))
        } else {
            None
        };
        if let Some((stacks, is_live, is_new)) = change {
            let counts = replay.until().is_none_or(|until| seen.seq <= until);
            let change = Change {
                bytes: seen.block.bytes,
                is_live,
                is_new: is_new && counts,
                counts,
            };
            tally.change(stacks, change);
        }
        let level = self.block_events.level();
        let row = replay.levels.get(&(seen.event.device, level));
        if row.is_some_and(|row| row.peak.0 == seen.seq) {
            tally.peak();
        }
    }

    /// Whether any of the threads allocated.
    pub fn has_any(&self) -> bool {
        self.devices.values().any(|tally| tally.len() > 0)
    }

    /// Blocks that were live at the point in time.
    pub fn live(self) -> ByStack {
        self.by_stack(|_, live| live)
    }

    /// All allocations up to the point in time; of a peak, those of the whole run.
    pub fn allocated(self) -> ByStack {
        self.by_stack(|allocated, _| allocated)
    }

    fn by_stack(self, which: fn(Figure, Figure) -> Figure) -> ByStack {
        let moment = self.moment;
        let on = |(device, tally): (DeviceOrdinal, Tally<StackKey>)| DeviceStacks {
            device,
            figures: tally
                .rows(moment)
                .map(|(stacks, allocated, live)| (stacks, which(allocated, live)))
                .filter(|(_, figure)| figure.blocks > 0)
                .collect(),
            total: None,
        };
        ByStack {
            level: self.block_events.level(),
            devices: self.devices.into_iter().map(on).collect(),
        }
    }
}

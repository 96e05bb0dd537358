//! Eviction from a level whose state has a limit.

use gpumem_capture::Seq;
use rustc_hash::FxHashMap;

use crate::block::Block;
use crate::categories::Moved;
use crate::high_water::{Clock, Clocks, Figure, HighWater};
use crate::ids::KeyId;
use crate::level_state::LevelState;
use crate::peak_snapshot::Address;
use crate::sampling::Sampled;
use crate::window::Window;

/// The number of frees to remember where memory is limited; they may still be cancelled.
const FREED_KEPT: usize = 4096;

impl LevelState {
    /// Whether the figures of this stack are needed: it holds something, or held something at a peak.
    pub(crate) fn needs(&self, high_water: &HighWater, device_clock: Clock) -> bool {
        let now = Clocks {
            level: self.clock,
            device: device_clock,
        };
        let nothing = Figure::default();
        high_water.live() != nothing
            || high_water.at_level_peak(now) != nothing
            || high_water.at_device_peak(now) != nothing
    }

    /// Stacks with their figures.
    pub(crate) fn by_stack(&self) -> impl Iterator<Item = (KeyId, &HighWater)> {
        self.by_stack
            .iter()
            .map(|(key, high_water)| (*key, high_water))
    }

    /// Gives every stack another id. The totals of stacks that get the same id are added up.
    pub(crate) fn change_keys(&mut self, change: &mut dyn FnMut(&mut KeyId)) {
        let now = self.clocks();
        for (mut key, high_water) in std::mem::take(&mut self.by_stack) {
            change(&mut key);
            self.by_stack.entry(key).or_default().merge(high_water, now);
        }
        for (mut key, high_water) in std::mem::take(&mut self.unseen) {
            change(&mut key);
            self.unseen.entry(key).or_default().merge(high_water, now);
        }
        for block in self.blocks.values_mut() {
            change(&mut block.key);
        }
        for (_, block) in &mut self.freed.0 {
            change(&mut block.key);
        }
        for reservation in self.reservations.values_mut() {
            reservation.each_key(change);
        }
        if let Some((key, _)) = &mut self.unkept {
            change(key);
        }
        self.peak_snapshot.each_key(change);
    }

    /// Remembers fewer frees.
    pub(crate) fn forget_frees(&mut self) {
        let more = self.freed.0.len().saturating_sub(FREED_KEPT);
        self.freed.0.drain(..more);
        self.freed.0.shrink_to_fit();
    }

    /// The number of blocks kept individually, those of the peak included.
    pub(crate) fn kept_blocks(&self) -> usize {
        self.blocks.len() + self.peak_snapshot.len()
    }

    /// Merges the smallest half of the blocks: their bytes move to `key`. Returns the merged live blocks, and how many
    /// blocks of the peak were merged.
    pub(crate) fn merge_blocks(&mut self, key: KeyId, sampled: Sampled<'_>) -> (Figure, u64) {
        let gone = self
            .peak_snapshot
            .smallest(self.peak_snapshot.len().div_ceil(2));
        for address in &gone {
            self.peak_snapshot.forget(address);
        }
        let mut all: Vec<(u64, Address)> = self
            .blocks
            .iter()
            .map(|(address, block)| (block.bytes, *address))
            .collect();
        all.sort_unstable();
        all.truncate(all.len().div_ceil(2));
        let now = self.clocks();
        let mut merged = Figure::default();
        for (bytes, address) in all {
            let Some(block) = self.blocks.remove(&address) else {
                continue;
            };
            self.by_stack
                .entry(block.key)
                .or_default()
                .remove_live(Figure::block(bytes), now);
            let merged_into = self.by_stack.entry(key).or_default();
            merged_into.add_live(Figure::block(bytes), now);
            // Which of them had stacks is not kept: from now on they stand only for themselves.
            if let (Some(unseen), Some(high_water)) =
                (sampled.unseen(block), self.unseen.get_mut(&block.key))
            {
                high_water.remove_live(unseen, now);
            }
            merged += Figure::block(bytes);
        }
        let unkept = self.unkept.get_or_insert((key, Figure::default()));
        unkept.1 += merged;
        (merged, gone.len() as u64)
    }

    /// The blocks and reservations of the level at the device's peak.
    pub(crate) fn at_device_peak_state(&self) -> Self {
        Self {
            blocks: self.peak_snapshot.blocks(&self.blocks),
            reservations: self.peak_snapshot.reservations(&self.reservations),
            ..Self::default()
        }
    }

    /// Moves a block to another key.
    pub(crate) fn stand_under(&mut self, address: Address, to: KeyId, is_told: bool) -> Moved {
        let block = self.blocks.get_mut(&address)?;
        block.is_told |= is_told;
        let from = std::mem::replace(&mut block.key, to);
        (from != to).then_some((*block, from))
    }

    /// Moves the figures of a block to another key, those at the peaks too.
    pub(crate) fn move_figures(
        &mut self,
        block: Block,
        from: KeyId,
        device_peak: Option<Seq>,
        window: &Window,
        sampled: Sampled<'_>,
    ) {
        if !(window.at(block.seq) && window.made(block.seq, block.bytes)) {
            return;
        }
        let was_live = |peak: Option<Seq>| peak.is_some_and(|peak| block.seq <= peak);
        let at = (was_live(self.ticked), was_live(device_peak));
        let now = self.clocks();
        let give = |by_stack: &mut FxHashMap<KeyId, HighWater>, figure| {
            let Some(mut high_water) = by_stack.remove(&from) else {
                return;
            };
            let to = by_stack.entry(block.key).or_default();
            high_water.give(to, figure, at, now);
            if !high_water.is_nothing() {
                by_stack.insert(from, high_water);
            }
        };
        give(&mut self.by_stack, Figure::block(block.bytes));
        if let Some(unseen) = sampled.unseen(block) {
            give(&mut self.unseen, unseen);
        }
    }

    /// Drops the figures by stack and keeps the blocks: from now on only new blocks are counted.
    pub(crate) fn count_anew(&mut self) {
        self.by_stack.clear();
        self.unseen.clear();
        (self.made_live, self.made_peak) = (0, 0);
    }

    /// Counts the live blocks that count, after [`LevelState::count_anew`].
    pub(crate) fn count_live(&mut self, window: &Window, sampled: Sampled<'_>) {
        let now = self.clocks();
        for block in self.blocks.values() {
            if window.made(block.seq, block.bytes) {
                let high_water = self.by_stack.entry(block.key).or_default();
                high_water.add_live(Figure::block(block.bytes), now);
                if let Some(unseen) = sampled.unseen(*block) {
                    let high_water = self.unseen.entry(block.key).or_default();
                    high_water.add_live(unseen, now);
                }
            }
        }
    }

    /// The live blocks and reservations of each stack, and the unseen bytes that they stand for.
    pub(crate) fn counted(&self, sampled: Sampled<'_>) -> Vec<(KeyId, Figure, Figure)> {
        let mut found: FxHashMap<KeyId, (Figure, Figure)> = FxHashMap::default();
        for block in self.blocks.values() {
            let (own, unseen) = found.entry(block.key).or_default();
            *own += Figure::block(block.bytes);
            *unseen += sampled.unseen(*block).unwrap_or_default();
        }
        let reservations = self.reservations.values();
        for (key, bytes) in reservations.flat_map(|reservation| reservation.parts()) {
            found.entry(*key).or_default().0 += Figure::block(*bytes);
        }
        let row = |(key, (own, unseen))| (key, own, unseen);
        found.into_iter().map(row).collect()
    }

    /// A new peak of the device, at this event.
    pub(crate) fn device_peak(&mut self, seq: Seq) {
        self.peak_snapshot.begin(seq);
    }
}

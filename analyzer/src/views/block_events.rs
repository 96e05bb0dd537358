//! Allocations and frees of blocks, for views that observe each of them.

use gpumem_capture::{DeviceOrdinal, Event, Level, Record, Seq};
use rustc_hash::FxHashMap;

use super::by_stack::{Owners, Select};
use crate::replay::{Block, Effect, KeyId, Replay, Sizes, StackKey};

/// Selects the blocks of a capture to follow. The capture has been read once, so all names are known.
pub struct BlockEvents<'a> {
    first: &'a Replay,
    level: Level,
    select: Select,
    sizes: Sizes,
    owners: Owners<'a>,
    taken: FxHashMap<StackKey, bool>,
}

/// A block that was allocated or freed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen<'r> {
    pub seq: Seq,
    pub event: &'r Event,
    pub block: Block,
    /// Whether it is live now.
    pub is_live: bool,
    /// Whether it is wanted. Unwanted blocks count for the distance of others.
    pub is_taken: bool,
}

impl<'a> BlockEvents<'a> {
    /// For a level.
    pub fn new(first: &'a Replay, level: Level, select: Select, sizes: Sizes) -> Self {
        Self {
            first,
            level,
            select,
            sizes,
            owners: Owners::new(first, level),
            taken: FxHashMap::default(),
        }
    }

    /// The level.
    pub fn level(&self) -> Level {
        self.level
    }

    /// The replay with all names.
    pub(super) fn first(&self) -> &'a Replay {
        self.first
    }

    /// The block that a record allocated or freed at this level, if any.
    pub(super) fn see<'r>(
        &mut self,
        replay: &Replay,
        record: Record<'r>,
        effect: Effect,
    ) -> Option<Seen<'r>> {
        let Record::Event(seq, event) = record else {
            return None;
        };
        let (block, is_live) = match effect {
            Effect::Live(block) => (block, true),
            Effect::Gone(block) => (block, false),
            Effect::None => return None,
        };
        (event.level == self.level).then(|| Seen {
            seq,
            event,
            block,
            is_live,
            is_taken: self.takes(replay, event.device, block),
        })
    }

    /// Whether a block is wanted.
    pub(super) fn takes(&mut self, replay: &Replay, device: DeviceOrdinal, block: Block) -> bool {
        self.sizes.take(block.bytes)
            && self.select.takes_device(device)
            && (self.select.is_whole() || self.takes_stacks(replay.stacks(block.key)))
    }

    fn takes_stacks(&mut self, stacks: StackKey) -> bool {
        let Self {
            first,
            level,
            select,
            owners,
            taken,
            ..
        } = self;
        *taken
            .entry(stacks)
            .or_insert_with(|| select.takes(first, stacks, *level, &owners.of(stacks)))
    }
}

/// Data of each live block, and of blocks that were freed recently, because a cancelled free restores its block.
#[derive(Debug)]
pub(super) struct Kept<T> {
    live: FxHashMap<Seq, T>,
    freed: FxHashMap<Seq, T>,
    can_cancel: bool,
}

/// How many frees are remembered. A free and its cancellation belong to one call.
const REMEMBERED: usize = 1 << 16;

impl<T: Copy> Kept<T> {
    /// For blocks of a level. Frees that a framework reports cannot fail.
    pub fn of(level: Level) -> Self {
        Self {
            live: FxHashMap::default(),
            freed: FxHashMap::default(),
            can_cancel: level != Level::TENSOR,
        }
    }

    /// A block became live. Returns the earlier data if the block was restored, else `new`; and whether it was
    /// restored.
    pub fn came(&mut self, block: Block, new: T) -> (T, bool) {
        let back = self.freed.remove(&block.seq);
        let kept = back.unwrap_or(new);
        self.live.insert(block.seq, kept);
        (kept, back.is_some())
    }

    /// Whether a block that became live was freed before, and is now restored.
    pub fn is_freed(&self, block: Block) -> bool {
        self.freed.contains_key(&block.seq)
    }

    /// A block was freed. Returns its data.
    pub fn went(&mut self, block: Block) -> Option<T> {
        let kept = self.live.remove(&block.seq)?;
        if self.can_cancel {
            if self.freed.len() == REMEMBERED {
                self.freed.clear();
            }
            self.freed.insert(block.seq, kept);
        }
        Some(kept)
    }

    /// Removes all data.
    pub fn clear(&mut self) {
        self.live.clear();
        self.freed.clear();
    }
}

/// An interned pair of stacks on a device.
pub(super) type On = (DeviceOrdinal, KeyId);

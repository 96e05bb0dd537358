//! The holders of a device's driver memory, updated with each event.

use gpumem_capture::{DeviceOrdinal, EventFlags, Level};
use rustc_hash::FxHashMap;

use super::tensors::{ByCategory, index_of};
use crate::attribution::{PYTORCH_ALLOCATOR, library};
use crate::replay::{Block, Effect, KeyId, LevelState, Replay};

/// How many libraries are separate holders. The others are summed.
const LIBRARIES: usize = 12;
/// PyTorch's pool, no known library, graphs, other libraries.
pub(super) const OWN: usize = 4;
/// The maximum number of holders.
pub(super) const HOLDERS: usize = OWN + LIBRARIES;

/// PyTorch's caching allocator.
pub(super) const POOL: usize = 0;
/// The library is not known.
pub(super) const UNKNOWN: usize = 1;
/// Memory nodes of graphs.
pub(super) const GRAPHS: usize = 2;
/// Libraries without a separate holder.
pub(super) const OTHERS: usize = 3;

/// Bytes by holder.
pub(super) type Held = [u64; HOLDERS];

/// The bytes of holders and tensors at a point in time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Kept {
    pub held: Held,
    pub by_category: ByCategory,
}

/// Libraries in the order of their first request for memory, over all devices.
#[derive(Debug, Default)]
pub(super) struct Libraries {
    names: Vec<String>,
    known: FxHashMap<KeyId, usize>,
}

impl Libraries {
    /// The name of a holder, if it is a library.
    pub fn name(&self, holder: usize) -> Option<&str> {
        let index = holder.checked_sub(OWN)?;
        self.names.get(index).map(String::as_str)
    }

    fn holder(&mut self, replay: &Replay, block: Block) -> usize {
        if block.flags.contains(EventFlags::GRAPH) {
            return GRAPHS;
        }
        if let Some(holder) = self.known.get(&block.key) {
            return *holder;
        }
        let stacks = replay.stacks(block.key);
        let holder = match library(&replay.names, stacks, Level::DRIVER) {
            None => UNKNOWN,
            Some(name) if name == PYTORCH_ALLOCATOR => POOL,
            Some(name) => self.place(name),
        };
        self.known.insert(block.key, holder);
        holder
    }

    fn place(&mut self, name: String) -> usize {
        if let Some(index) = self.names.iter().position(|had| *had == name) {
            return OWN + index;
        }
        if self.names.len() == LIBRARIES {
            return OTHERS;
        }
        self.names.push(name);
        OWN + self.names.len() - 1
    }

    /// Applies the effect of an event on the driver level. Managed memory has no holder, because its location is not
    /// known.
    pub fn apply(&mut self, replay: &Replay, held: &mut Held, effect: Effect) {
        let (block, gone) = match effect {
            Effect::Live(block) => (block, false),
            Effect::Gone(block) => (block, true),
            Effect::None => return,
        };
        if block.flags.contains(EventFlags::MANAGED) {
            return;
        }
        let held = &mut held[self.holder(replay, block)];
        *held = match gone {
            true => held.saturating_sub(block.bytes),
            false => held.saturating_add(block.bytes),
        };
    }

    /// The bytes of holders and tensors at the peak that a bounded capture's state contains.
    pub fn at_kept_peak(&mut self, replay: &Replay, device: DeviceOrdinal) -> Kept {
        let Some((then, _)) = replay.restored.and_then(|_| replay.at_peak_of(device)) else {
            return Kept::default();
        };
        let row = |level| then.levels.get(&(device, level));
        let mut by_category = ByCategory::default();
        for (key, figure) in row(Level::TENSOR).into_iter().flat_map(LevelState::live) {
            by_category[index_of(replay.stacks(key).purpose.category())] += figure.bytes;
        }
        let held = row(Level::DRIVER).map(|row| self.live(replay, row));
        Kept {
            held: held.unwrap_or_default(),
            by_category,
        }
    }

    /// The live bytes of a level, for the state at the start of a bounded capture.
    pub fn live(&mut self, replay: &Replay, row: &LevelState) -> Held {
        let mut held = [0; HOLDERS];
        let mut blocks: Vec<(u64, Block)> = row.live_blocks().collect();
        blocks.sort_unstable_by_key(|(address, block)| (block.seq, *address));
        for (_, block) in blocks {
            self.apply(replay, &mut held, Effect::Live(block));
        }
        held
    }
}

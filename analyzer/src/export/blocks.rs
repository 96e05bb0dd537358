//! The blocks that were live at a point in time, each with its time and thread.

use std::collections::BTreeMap;

use gpumem_capture::{DeviceOrdinal, EventFlags, Level, Nanos, Record, Seq, ThreadId};
use rustc_hash::FxHashMap;

use crate::replay::{Category, Effect, Replay, Sizes, StackKey};
use crate::views::ByStack;

/// A live block, or several with one stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveBlock {
    /// When it was allocated.
    pub time: Nanos,
    /// By which thread.
    pub thread: ThreadId,
    /// On which device.
    pub device: DeviceOrdinal,
    /// Its address.
    pub address: u64,
    /// Its bytes.
    pub bytes: u64,
    /// The stacks that allocated it.
    pub stacks: StackKey,
    /// The event that allocated it.
    seq: Seq,
}

/// Follows a level and keeps the blocks that were live on each device just after an event. Memory is bounded by the
/// number of live blocks.
#[derive(Debug)]
pub struct Blocks {
    level: Level,
    /// By device: the event; `None` for the end.
    moments: BTreeMap<DeviceOrdinal, Option<Seq>>,
    live: BTreeMap<DeviceOrdinal, FxHashMap<(u64, bool), LiveBlock>>,
    then: BTreeMap<DeviceOrdinal, Vec<LiveBlock>>,
    /// Categories of blocks that ended after the point in time.
    ended: FxHashMap<Seq, Category>,
}

impl Blocks {
    /// Each device has a separate point in time.
    pub fn new(level: Level, moments: BTreeMap<DeviceOrdinal, Option<Seq>>) -> Self {
        Self {
            level,
            moments,
            live: BTreeMap::new(),
            then: BTreeMap::new(),
            ended: FxHashMap::default(),
        }
    }

    /// Observes a record after the replay has.
    pub fn observe(&mut self, replay: &Replay, record: Record<'_>, effect: Effect) {
        let Record::Event(seq, event) = record else {
            return;
        };
        if event.level != self.level || effect == Effect::None {
            return;
        }
        let live = self.live.entry(event.device).or_default();
        if let Some(Some(moment)) = self.moments.get(&event.device)
            && seq > *moment
        {
            let then = self.then.entry(event.device);
            then.or_insert_with(|| live.values().copied().collect());
            if let Effect::Gone(block) = effect
                && block.seq <= *moment
            {
                self.ended.insert(block.seq, replay.newest_ended);
            }
        }
        let address = (event.ptr, event.flags.contains(EventFlags::VMM_HANDLE));
        match effect {
            Effect::Live(block) => {
                let block = LiveBlock {
                    time: event.time,
                    thread: event.thread,
                    device: event.device,
                    address: event.ptr,
                    bytes: block.bytes,
                    stacks: replay.stacks(block.key),
                    seq,
                };
                live.insert(address, block);
            }
            Effect::Gone(_) => drop(live.remove(&address)),
            Effect::None => {}
        }
    }

    /// The blocks among `held` with these sizes. Their bytes sum to it: bytes of a stack without a block in the
    /// capture become one block of that stack, at time 0.
    pub fn finish(mut self, replay: &Replay, held: &ByStack, sizes: Sizes) -> Vec<LiveBlock> {
        let levels = replay
            .levels
            .iter()
            .filter(|((_, of), _)| *of == self.level);
        let live = levels.flat_map(|(_, state)| state.live_blocks());
        let categories =
            live.map(|(_, block)| (block.seq, replay.stacks(block.key).purpose.category()));
        self.ended.extend(categories);
        let mut all = Vec::new();
        for on in &held.devices {
            let then = self.then.remove(&on.device);
            let live = self.live.remove(&on.device).unwrap_or_default();
            let blocks = then.unwrap_or_else(|| live.into_values().collect());
            let mut left: FxHashMap<StackKey, u64> = FxHashMap::default();
            for (stacks, figure) in &on.figures {
                *left.entry(*stacks).or_default() += figure.bytes;
            }
            for mut block in blocks.into_iter().filter(|block| sizes.take(block.bytes)) {
                let category = self.ended.get(&block.seq).copied().unwrap_or_default();
                block.stacks = block.stacks.with_category(category);
                if let Some(left) = left.get_mut(&block.stacks)
                    && let Some(less) = left.checked_sub(block.bytes)
                {
                    *left = less;
                    all.push(block);
                }
            }
            let rest = left.into_iter().filter(|(_, bytes)| *bytes > 0);
            all.extend(rest.map(|(stacks, bytes)| LiveBlock {
                time: Nanos(0),
                thread: ThreadId(0),
                device: on.device,
                address: 0,
                bytes,
                stacks,
                seq: Seq(0),
            }));
        }
        all.sort_unstable_by_key(|block| {
            (
                block.time,
                block.device,
                block.address,
                block.stacks,
                block.bytes,
            )
        });
        all
    }
}

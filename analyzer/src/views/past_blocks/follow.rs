//! Observes each record, and returns the blocks at the end.

use std::collections::BTreeMap;

use gpumem_capture::{
    AllocatorCall, Definition, DeviceOrdinal, Event, EventFlags, EventKind, Level, Nanos,
    PlacementId, Record, Seq,
};
use rustc_hash::FxHashMap;

use super::keep::{DetailRange, Keep, Room, Span};
use super::live::{Address, Live};
use super::spans::FollowSpans;
use super::{PastBlock, PastBlocks, PastLevel, Placed, Placement};
use crate::replay::{Block, Category, Effect, Replay, StackKey};
use crate::views::{Moments, Stretch};

/// The maximum number of stretches that are kept in detail.
const STRETCHES: usize = 6;
/// The levels whose blocks are followed.
const LEVELS: [Level; 3] = [Level::TENSOR, Level::DRIVER, Level::HOST];

/// Stretches within a part of the run around the failure, the peaks, the end, and some of the largest points in time.
/// The number of their events is limited by `room`.
fn stretches(moments: &Moments, room: Room, within: Stretch) -> Vec<DetailRange> {
    let length = room.stretch as u64;
    let mut found: Vec<DetailRange> = Vec::new();
    for seq in moments.by_interest().map(Seq) {
        let is_near = |of: &DetailRange| (of.from.0..of.to.0 + length / 4).contains(&seq.0);
        if found.len() < STRETCHES && !found.iter().any(is_near) {
            let from = Seq(seq.0.saturating_sub(length / 4 * 3));
            let to = Seq(seq.0 + length / 4);
            found.push(DetailRange {
                from: within.from.map_or(from, |begin| begin.seq.max(from)),
                to: within.to.map_or(to, |end| end.seq.min(to)),
            });
        }
    }
    found.sort_by_key(|stretch| stretch.from);
    found
}

/// A device and level.
#[derive(Debug)]
struct Following {
    keep: Keep,
    live: FxHashMap<Address, Live>,
    /// Blocks that were freed and are not yet released to the pool.
    waiting: FxHashMap<u64, PastBlock>,
    /// When recently freed blocks of the driver level were allocated, and whether they were counted: their frees may
    /// still be cancelled.
    freed: FxHashMap<Seq, (Nanos, bool)>,
    count: u64,
    within: Stretch,
    /// The live bytes at the start of the part of the run.
    begins: Option<(Seq, Nanos, u64)>,
}

/// How many frees are remembered. A free and its cancellation belong to one call.
const REMEMBERED: usize = 1 << 16;

/// Follows all blocks of a capture that has been read once. Memory is bounded by the live blocks and by the room.
#[derive(Debug)]
pub struct FollowBlocks {
    room: Room,
    /// Blocks that are never live in this part are omitted.
    within: Stretch,
    has_begun: bool,
    stretches: Vec<DetailRange>,
    levels: BTreeMap<(DeviceOrdinal, Level), Following>,
    spans: FollowSpans,
    placements: Vec<Placement>,
    /// The current meaning of placements' numbers, which are reused.
    placed: FxHashMap<(DeviceOrdinal, PlacementId), u32>,
}

impl FollowBlocks {
    /// Keeps all blocks if there is room for them. Otherwise, keeps those with most bytes times time in the run or a
    /// part of it, and those of the stretches that are viewed first. `first` has read the capture.
    pub fn choose(first: &Replay, moments: &Moments, room: Room, within: Stretch) -> Self {
        let of = |level: &Level| LEVELS.contains(level);
        let levels = first.levels.iter().filter(|((_, level), _)| of(level));
        let devices = first.devices.len().max(1);
        let room = Room {
            run: room.run / devices,
            stretch: room.stretch / devices,
        };
        let blocks = levels.map(|(_, state)| state.counters.allocations);
        let stretches = if blocks.max().unwrap_or(0) <= room.run as u64 {
            Vec::new()
        } else {
            stretches(moments, room, within)
        };
        Self::new(room, stretches).of(within)
    }

    /// Only for a part of the run.
    pub fn of(mut self, within: Stretch) -> Self {
        self.within = within;
        self
    }

    /// `stretches` are kept in detail.
    pub fn new(room: Room, stretches: Vec<DetailRange>) -> Self {
        Self {
            room,
            spans: FollowSpans::new(room, &stretches),
            within: Stretch::default(),
            has_begun: false,
            stretches,
            levels: BTreeMap::new(),
            placements: Vec::new(),
            placed: FxHashMap::default(),
        }
    }

    /// Observes a record after the replay has.
    pub fn observe(&mut self, replay: &Replay, record: Record<'_>, effect: Effect) {
        match record {
            Record::Event(seq, event) => self.event(replay, seq, event, effect),
            Record::State(..) => self.restored(replay),
            Record::Definition(
                _,
                Definition::Placement {
                    id,
                    device,
                    stream,
                    pool,
                    ..
                },
            ) => {
                let place = self.placements.len() as u32;
                self.placed.insert((*device, *id), place);
                self.placements.push(Placement {
                    device: *device,
                    stream: *stream,
                    pool: *pool,
                });
            }
            Record::Definition(..) => {}
        }
    }

    /// The meaning of an event's placement.
    fn placed(&self, event: &Event) -> Placed {
        match event.placement {
            PlacementId::DEFAULT => Placed::Default,
            id => self
                .placed
                .get(&(event.device, id))
                .map_or(Placed::Unknown, |place| Placed::Part(*place)),
        }
    }

    fn following(&mut self, device: DeviceOrdinal, level: Level) -> &mut Following {
        let Self {
            room,
            stretches,
            within,
            ..
        } = self;
        self.levels
            .entry((device, level))
            .or_insert_with(|| Following {
                keep: Keep::new(*room, stretches),
                live: FxHashMap::default(),
                waiting: FxHashMap::default(),
                freed: FxHashMap::default(),
                count: 0,
                within: *within,
                begins: None,
            })
    }

    /// Applies the live blocks of the state at the start of a bounded capture.
    fn restored(&mut self, replay: &Replay) {
        for ((device, level), state) in &replay.levels {
            if !LEVELS.contains(level) {
                continue;
            }
            let following = self.following(*device, *level);
            for (address, block) in state.live_blocks() {
                let is_handle = block.flags.contains(EventFlags::VMM_HANDLE);
                let live = Live {
                    bytes: block.bytes,
                    made: (block.seq, replay.last),
                    key: block.key,
                    slack: None,
                    placement: Placed::Unknown,
                    flags: block.flags,
                    is_shared: false,
                };
                following.live.insert((address, is_handle), live);
            }
        }
        self.spans.restored(replay);
    }

    /// The part of the run begins. The live blocks at this time are known.
    fn begin(&mut self) {
        let Some(from) = self.within.from else { return };
        self.has_begun = true;
        for following in self.levels.values_mut() {
            let live = following.live.values().map(|live| live.bytes);
            following.begins = Some((from.seq, from.time, live.sum()));
        }
    }

    fn event(&mut self, replay: &Replay, seq: Seq, event: &Event, effect: Effect) {
        if !self.has_begun && !self.within.is_before(seq) {
            self.begin();
        }
        self.spans.event(seq, event);
        if event.kind == EventKind::ALLOCATOR {
            self.told(seq, event);
        }
        if effect == Effect::None || !LEVELS.contains(&event.level) {
            return;
        }
        let placed = self.placed(event);
        let following = self.following(event.device, event.level);
        match effect {
            Effect::Live(block) => following.came(replay, seq, event, block, placed),
            Effect::Gone(_) => following.went(replay, seq, event),
            Effect::None => {}
        }
    }

    /// Applies a call of the framework's allocator for a block.
    fn told(&mut self, seq: Seq, event: &Event) {
        let Some(following) = self.levels.get_mut(&(event.device, Level::TENSOR)) else {
            return;
        };
        match AllocatorCall(event.aux) {
            AllocatorCall::RECORD_STREAM => {
                if let Some(live) = following.live.get_mut(&(event.ptr, false)) {
                    live.is_shared = true;
                }
            }
            AllocatorCall::RELEASED => {
                if let Some(mut block) = following.waiting.remove(&event.ptr) {
                    block.released = Some((seq, event.time));
                    following.waited(block, event.time.0);
                }
            }
            _ => {}
        }
    }

    /// The blocks, after all records.
    pub fn finish(self, replay: &Replay) -> PastBlocks {
        let now = (replay.last_seq, replay.last);
        let levels = self.levels.into_iter();
        PastBlocks {
            levels: levels
                .map(|((device, level), following)| following.finish(replay, device, level, now))
                .collect(),
            spans: self.spans.finish(),
            placements: self.placements,
        }
    }
}

impl Following {
    /// A block ended, or the run did. `block` creates it, if it is kept.
    fn offer(&mut self, span: Span, now_ns: u64, block: &mut dyn FnMut() -> PastBlock) {
        let ended = span.ended.map(|(ended, _)| ended);
        if self.within.has_block(span.made.0, ended) {
            self.count += 1;
            self.keep.offer(span, now_ns, block);
        }
    }

    /// A block was released to the pool, or the run ended before.
    fn waited(&mut self, block: PastBlock, now_ns: u64) {
        self.offer(Span::of(&block), now_ns, &mut || block.clone());
    }

    fn came(&mut self, replay: &Replay, seq: Seq, event: &Event, block: Block, placed: Placed) {
        let is_handle = event.flags.contains(EventFlags::VMM_HANDLE);
        // If a free was cancelled, the block keeps its age.
        let was_freed = self.freed.remove(&block.seq);
        let made = was_freed.map_or(event.time, |(made, is_counted)| {
            self.count -= u64::from(is_counted);
            made
        });
        let is_new = block.seq == seq;
        let tells_slack = event.level == Level::TENSOR && event.slack != Event::SLACK_UNKNOWN;
        let live = Live {
            bytes: block.bytes,
            made: (block.seq, made),
            key: block.key,
            slack: (is_new && tells_slack).then_some(event.slack),
            placement: placed,
            flags: block.flags,
            is_shared: false,
        };
        if let Some(waited) = self.waiting.remove(&event.ptr) {
            self.waited(waited, event.time.0);
        }
        let address = (event.ptr, is_handle);
        if let Some(lost) = self.live.insert(address, live) {
            let at = (seq, event.time);
            self.end(lost, address, Category::None, replay, at, None);
        }
    }

    fn went(&mut self, replay: &Replay, seq: Seq, event: &Event) {
        let is_handle = event.flags.contains(EventFlags::VMM_HANDLE);
        let address = (event.ptr, is_handle);
        if let Some(live) = self.live.remove(&address) {
            if event.level != Level::TENSOR {
                if self.freed.len() == REMEMBERED {
                    self.freed.clear();
                }
                let (made, at) = live.made;
                let is_counted = self.within.has_block(made, Some(seq));
                self.freed.insert(made, (at, is_counted));
            }
            let category = replay.newest_ended;
            let stacks = StackKey {
                py: event.py_stack,
                native: event.native_stack,
                ..StackKey::default()
            };
            let freed_by = (stacks != StackKey::default()).then_some(stacks);
            let at = (seq, event.time);
            self.end(live, address, category, replay, at, freed_by);
        }
    }

    fn end(
        &mut self,
        live: Live,
        address: Address,
        category: Category,
        replay: &Replay,
        at: (Seq, Nanos),
        freed_by: Option<StackKey>,
    ) {
        let mut past = || PastBlock {
            freed_by,
            ..live.past(replay, address, category, Some(at))
        };
        if live.is_shared {
            let mut block = past();
            // Until it is released, or the end of the run.
            block.released = Some((Seq(u64::MAX), Nanos(u64::MAX)));
            self.waiting.insert(block.address, block);
        } else {
            self.offer(live.span(Some(at)), replay.last.0, &mut past);
        }
    }

    fn finish(
        mut self,
        replay: &Replay,
        device: DeviceOrdinal,
        level: Level,
        now: (Seq, Nanos),
    ) -> PastLevel {
        let row = replay.levels.get(&(device, level));
        let live = row.into_iter().flat_map(|row| row.live_blocks());
        let categories: FxHashMap<Seq, _> = live
            .map(|(_, block)| (block.seq, replay.stacks(block.key).purpose.category()))
            .collect();
        for (address, live) in std::mem::take(&mut self.live) {
            let category = categories.get(&live.made.0).copied().unwrap_or_default();
            let mut past = || live.past(replay, address, category, None);
            self.offer(live.span(None), now.1.0, &mut past);
        }
        for (_, block) in std::mem::take(&mut self.waiting) {
            self.waited(block, now.1.0);
        }
        let kept = self.keep.finish();
        PastLevel {
            device,
            level,
            blocks: kept.blocks,
            count: self.count,
            begins: self.begins,
            is_all: kept.is_all,
            whole: kept.whole,
        }
    }
}

//! Sees each record, and gives the blocks at the end.

use std::collections::BTreeMap;

use gpumem_capture::{
    AllocatorCall, Definition, DeviceOrdinal, Event, EventFlags, EventKind, Level, Nanos,
    PlacementId, Record, Seq,
};
use rustc_hash::FxHashMap;

use super::keep::{DetailRange, Keep, Room, Span};
use super::{PastBlock, PastBlocks, PastLevel, PastMapping, Placement};
use crate::replay::{Block, Category, Effect, KeyId, Replay};
use crate::views::{MOMENT_LEVELS, Moments};

/// So many stretches are kept in detail.
const STRETCHES: usize = 6;
/// So many mappings are kept, the first ones.
const MAPPINGS: usize = 20_000;

/// An address, and whether it is a VMM handle.
type Address = (u64, bool);

/// Around the failure, the peaks, the end, and some of the greatest moments: so many events each that there is room for.
fn stretches(moments: &Moments, room: Room) -> Vec<DetailRange> {
    let length = room.stretch as u64;
    let mut found: Vec<DetailRange> = Vec::new();
    for seq in moments.by_interest().map(Seq) {
        let is_near = |of: &DetailRange| (of.from.0..of.to.0 + length / 4).contains(&seq.0);
        if found.len() < STRETCHES && !found.iter().any(is_near) {
            found.push(DetailRange {
                from: Seq(seq.0.saturating_sub(length / 4 * 3)),
                to: Seq(seq.0 + length / 4),
            });
        }
    }
    found.sort_by_key(|stretch| stretch.from);
    found
}

/// A block that is live. Most are not kept: no more is followed of one than is asked for at its end.
#[derive(Clone, Copy, Debug)]
struct Live {
    bytes: u64,
    made: (Seq, Nanos),
    key: KeyId,
    slack: Option<u32>,
    placement: PlacementId,
    /// Whether another stream uses it, so that it waits when it is freed.
    is_shared: bool,
}

impl Live {
    fn span(&self, ended: Option<(Seq, Nanos)>) -> Span {
        Span {
            bytes: self.bytes,
            made: self.made,
            ended,
        }
    }

    fn past(
        &self,
        replay: &Replay,
        (address, is_handle): Address,
        category: Category,
        ended: Option<(Seq, Nanos)>,
    ) -> PastBlock {
        PastBlock {
            address,
            bytes: self.bytes,
            slack: self.slack,
            placement: self.placement,
            is_handle,
            stacks: replay.stacks(self.key).without_category(),
            category,
            made: self.made,
            ended,
            released: None,
        }
    }
}

/// A device and level.
#[derive(Debug)]
struct Following {
    keep: Keep,
    live: FxHashMap<Address, Live>,
    /// Freed, and not yet back in the pool.
    waiting: FxHashMap<u64, PastBlock>,
    /// When blocks were allocated whose free may yet be cancelled: those of the driver level that were freed lately.
    freed: FxHashMap<Seq, Nanos>,
    count: u64,
}

/// How many frees are remembered: a free and its cancellation are of one call.
const REMEMBERED: usize = 1 << 16;

/// Follows all blocks of a capture that has been read once. Memory is bounded by what is live and by the room.
#[derive(Debug)]
pub struct FollowBlocks {
    room: Room,
    stretches: Vec<DetailRange>,
    levels: BTreeMap<(DeviceOrdinal, Level), Following>,
    mappings: Vec<PastMapping>,
    placements: Vec<Placement>,
}

impl FollowBlocks {
    /// Keeps all blocks where there is room for them, else those of the stretches that a reader looks at first besides
    /// those of the whole run. `first` has read the capture.
    pub fn choose(first: &Replay, moments: &Moments, room: Room) -> Self {
        let of = |level: &Level| MOMENT_LEVELS.contains(level);
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
            stretches(moments, room)
        };
        Self::new(room, stretches)
    }

    /// `stretches` are kept in detail.
    pub fn new(room: Room, stretches: Vec<DetailRange>) -> Self {
        Self {
            room,
            stretches,
            levels: BTreeMap::new(),
            mappings: Vec::new(),
            placements: Vec::new(),
        }
    }

    /// Takes in a record after the replay has.
    pub fn observe(&mut self, replay: &Replay, record: Record<'_>, effect: Effect) {
        match record {
            Record::Event(seq, event) => self.event(replay, seq, event, effect),
            Record::State(..) => self.restored(replay),
            Record::Definition(
                _,
                Definition::Placement {
                    id, stream, pool, ..
                },
            ) => self.placements.push(Placement {
                id: *id,
                stream: *stream,
                pool: *pool,
            }),
            Record::Definition(..) => {}
        }
    }

    fn following(&mut self, device: DeviceOrdinal, level: Level) -> &mut Following {
        let Self {
            room, stretches, ..
        } = self;
        self.levels
            .entry((device, level))
            .or_insert_with(|| Following {
                keep: Keep::new(*room, stretches),
                live: FxHashMap::default(),
                waiting: FxHashMap::default(),
                freed: FxHashMap::default(),
                count: 0,
            })
    }

    /// A bounded capture begins with a state: what is live then.
    fn restored(&mut self, replay: &Replay) {
        for ((device, level), state) in &replay.levels {
            if !MOMENT_LEVELS.contains(level) {
                continue;
            }
            let following = self.following(*device, *level);
            for (address, block) in state.live_blocks() {
                let is_handle = block.flags.contains(EventFlags::VMM_HANDLE);
                following.count += 1;
                let live = Live {
                    bytes: block.bytes,
                    made: (block.seq, replay.last),
                    key: block.key,
                    slack: None,
                    placement: PlacementId::default(),
                    is_shared: false,
                };
                following.live.insert((address, is_handle), live);
            }
        }
        for (address, mapping) in &replay.objects.mappings {
            self.mappings.push(PastMapping {
                address: *address,
                bytes: mapping.bytes,
                handle: mapping.handle,
                made: replay.last_seq,
                ended: None,
            });
        }
    }

    fn event(&mut self, replay: &Replay, seq: Seq, event: &Event, effect: Effect) {
        match event.kind {
            EventKind::MAP if self.mappings.len() < MAPPINGS => self.mappings.push(PastMapping {
                address: event.ptr,
                bytes: event.bytes,
                handle: event.aux,
                made: seq,
                ended: None,
            }),
            EventKind::UNMAP => self.unmapped(seq, event),
            EventKind::ALLOCATOR => self.told(seq, event),
            _ => {}
        }
        if effect == Effect::None || !MOMENT_LEVELS.contains(&event.level) {
            return;
        }
        let following = self.following(event.device, event.level);
        match effect {
            Effect::Live(block) => following.came(replay, seq, event, block),
            Effect::Gone(_) => following.went(replay, seq, event),
            Effect::None => {}
        }
    }

    fn unmapped(&mut self, seq: Seq, event: &Event) {
        let end = event.ptr.saturating_add(event.bytes);
        let mappings = self.mappings.iter_mut();
        let within = mappings.filter(|mapping| (event.ptr..end).contains(&mapping.address));
        for mapping in within.filter(|mapping| mapping.ended.is_none()) {
            mapping.ended = Some(seq);
        }
    }

    /// What the framework's allocator says of a block.
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
            mappings: self.mappings,
            placements: self.placements,
        }
    }
}

impl Following {
    fn came(&mut self, replay: &Replay, seq: Seq, event: &Event, block: Block) {
        let is_handle = event.flags.contains(EventFlags::VMM_HANDLE);
        // Where a free was cancelled the block is as old as it was.
        let made = self.freed.remove(&block.seq).unwrap_or(event.time);
        let is_new = block.seq == seq;
        let tells_slack = event.level == Level::TENSOR && event.slack != Event::SLACK_UNKNOWN;
        let live = Live {
            bytes: block.bytes,
            made: (block.seq, made),
            key: block.key,
            slack: (is_new && tells_slack).then_some(event.slack),
            placement: event.placement,
            is_shared: false,
        };
        self.count += u64::from(is_new);
        if let Some(waited) = self.waiting.remove(&event.ptr) {
            self.waited(waited, event.time.0);
        }
        let address = (event.ptr, is_handle);
        if let Some(lost) = self.live.insert(address, live) {
            self.end(lost, address, Category::None, replay, (seq, event.time));
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
                self.freed.insert(made, at);
            }
            let category = replay.newest_ended;
            self.end(live, address, category, replay, (seq, event.time));
        }
    }

    fn end(
        &mut self,
        live: Live,
        address: Address,
        category: Category,
        replay: &Replay,
        at: (Seq, Nanos),
    ) {
        let mut past = || live.past(replay, address, category, Some(at));
        if live.is_shared {
            let mut block = past();
            // Until it is released; at the end of the run, if it is not.
            block.released = Some((Seq(u64::MAX), Nanos(u64::MAX)));
            self.waiting.insert(block.address, block);
        } else {
            self.keep
                .offer(live.span(Some(at)), replay.last.0, &mut past);
        }
    }

    /// A block is back in the pool, or the run has ended before it was.
    fn waited(&mut self, block: PastBlock, now_ns: u64) {
        self.keep
            .offer(Span::of(&block), now_ns, &mut || block.clone());
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
            self.keep.offer(live.span(None), now.1.0, &mut past);
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
            is_all: kept.is_all,
            whole: kept.whole,
        }
    }
}

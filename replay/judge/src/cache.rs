//! The free memory of a framework's pool, as one request sees it.
//!
//! A segment serves requests of one stream and one pool. Of the free memory in the others, a request can use none.

use std::collections::{BTreeMap, BTreeSet};

use gpumem_capture::{DeviceOrdinal, EventFlags, Level, PlacementId};
use gpumem_replay::attribution::{PYTORCH_ALLOCATOR, library};
use gpumem_replay::{Backing, Replay};
use rustc_hash::FxHashMap;

/// Free memory in segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Free {
    /// Its bytes.
    pub bytes: u64,
    /// The number of its blocks: the gaps between tensors.
    pub blocks: u64,
    /// The largest block.
    pub largest: u64,
    /// The segments that have any.
    pub segments: u64,
    /// Bytes of segments without a tensor, which `empty_cache()` frees.
    pub whole: u64,
}

impl Free {
    fn add(&mut self, other: Self) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.blocks += other.blocks;
        self.largest = self.largest.max(other.largest);
        self.segments += other.segments;
        self.whole = self.whole.saturating_add(other.whole);
    }
}

/// The free memory of the pool at a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cache {
    /// Of the request's stream and pool.
    pub usable: Free,
    /// Of other streams, in the default pool.
    pub other_streams: Free,
    /// How many of these streams there are.
    pub streams: u64,
    /// Of other pools: private ones, such as those of CUDA graphs.
    pub other_pools: Free,
    /// Bytes of the segments that were seen.
    pub reserved: u64,
}

/// A stream and a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Placement {
    pub stream: u64,
    pub pool: (u64, u64),
}

/// Where blocks came from, if not from the default stream and pool: by address, the newest of each.
#[derive(Clone, Debug, Default)]
pub(crate) struct Placements {
    by_id: FxHashMap<(DeviceOrdinal, PlacementId), Placement>,
    blocks: BTreeMap<(DeviceOrdinal, u64), PlacementId>,
}

impl Placements {
    pub fn define(&mut self, device: DeviceOrdinal, id: PlacementId, of: Placement) {
        self.by_id.insert((device, id), of);
    }

    /// A block was allocated.
    #[inline]
    pub fn came(&mut self, device: DeviceOrdinal, address: u64, id: PlacementId) {
        if id != PlacementId::DEFAULT && id != PlacementId::UNKNOWN {
            self.blocks.insert((device, address), id);
        } else if !self.blocks.is_empty() {
            self.blocks.remove(&(device, address));
        }
    }

    fn of(&self, device: DeviceOrdinal, id: PlacementId) -> Placement {
        self.by_id.get(&(device, id)).copied().unwrap_or_default()
    }

    /// Where the blocks of a segment come from.
    fn of_segment(&self, device: DeviceOrdinal, start: u64, end: u64) -> Placement {
        let mut within = self.blocks.range((device, start)..(device, end));
        within
            .next()
            .map_or_else(Placement::default, |(_, id)| self.of(device, *id))
    }
}

/// A segment: its first byte and the one after its last.
type Range = (u64, u64);

/// The segments of PyTorch's allocator on a device. Adjacent mappings of expandable segments are one.
fn segments(replay: &Replay, device: DeviceOrdinal, tensors: &[Range]) -> Vec<Range> {
    let mut plain = Vec::new();
    let mut mapped: FxHashMap<u64, ()> = FxHashMap::default();
    let row = replay.levels.get(&(device, Level::DRIVER));
    for (address, block) in row.into_iter().flat_map(|row| row.live_blocks()) {
        let of_pytorch = || {
            let stacks = replay.stacks(block.key);
            library(&replay.names, stacks, Level::DRIVER).as_deref() == Some(PYTORCH_ALLOCATOR)
        };
        match Backing::of(block.flags) {
            Backing::Pages if !block.flags.contains(EventFlags::ARRAY) => {
                let range = (address, address.saturating_add(block.bytes));
                if has_any(tensors, range) || of_pytorch() {
                    plain.push(range);
                }
            }
            Backing::Handle if of_pytorch() => drop(mapped.insert(address, ())),
            _ => {}
        }
    }
    let mappings = replay.objects.mappings.iter();
    let mine = mappings
        .filter(|(_, of)| of.device == device && mapped.contains_key(&of.handle))
        .map(|(start, of)| (*start, start.saturating_add(of.bytes)));
    let mut expandable: Vec<Range> = Vec::new();
    for (start, end) in mine {
        match expandable.last_mut() {
            Some(last) if last.1 == start => last.1 = end,
            _ => expandable.push((start, end)),
        }
    }
    plain.append(&mut expandable);
    plain
}

fn has_any(tensors: &[Range], (start, end): Range) -> bool {
    let first = tensors.partition_point(|tensor| tensor.0 < start);
    tensors.get(first).is_some_and(|tensor| tensor.0 < end)
}

impl Cache {
    /// Bytes that `empty_cache()` frees. Private pools keep theirs.
    pub(crate) fn whole(&self) -> u64 {
        self.usable.whole.saturating_add(self.other_streams.whole)
    }

    /// The free memory now, for a request with this placement.
    pub(crate) fn now(
        replay: &Replay,
        placements: &Placements,
        device: DeviceOrdinal,
        request: PlacementId,
    ) -> Self {
        let row = replay.levels.get(&(device, Level::TENSOR));
        let blocks = row.into_iter().flat_map(|row| row.live_blocks());
        let mut tensors: Vec<Range> = blocks
            .map(|(address, block)| (address, address.saturating_add(block.bytes)))
            .collect();
        tensors.sort_unstable();
        let wanted = placements.of(device, request);
        let mut cache = Self::default();
        let mut streams = BTreeSet::new();
        for range in segments(replay, device, &tensors) {
            let free = free(&tensors, range);
            let from = placements.of_segment(device, range.0, range.1);
            cache.reserved = cache.reserved.saturating_add(range.1 - range.0);
            let part = match from {
                _ if from == wanted => &mut cache.usable,
                _ if from.pool == wanted.pool => {
                    streams.insert(from.stream);
                    &mut cache.other_streams
                }
                _ => &mut cache.other_pools,
            };
            part.add(free);
        }
        cache.streams = streams.len() as u64;
        cache
    }
}

/// The gaps between the tensors of a segment.
fn free(tensors: &[Range], (start, end): Range) -> Free {
    let mut free = Free::default();
    let mut gap = |bytes: u64| {
        if bytes > 0 {
            free.bytes = free.bytes.saturating_add(bytes);
            free.largest = free.largest.max(bytes);
            free.blocks += 1;
        }
    };
    let first = tensors.partition_point(|tensor| tensor.0 < start);
    let mut at = start;
    for (tensor, after) in tensors[first..].iter().take_while(|of| of.0 < end) {
        gap(tensor.saturating_sub(at));
        at = at.max(*after);
    }
    gap(end.saturating_sub(at));
    free.segments = u64::from(free.bytes > 0);
    free.whole = if free.bytes == end - start {
        free.bytes
    } else {
        0
    };
    free
}

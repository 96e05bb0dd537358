//! The segments of PyTorch's pool and the tensors in them, as in snapshots: blocks are adjacent and fill their
//! segment.

use gpumem_capture::{DeviceOrdinal, EventFlags, Level};

use crate::attribution::{PYTORCH_ALLOCATOR, library};
use crate::replay::{Block, Replay, StackKey};

/// Whether driver memory with these stacks belongs to the pool: PyTorch's allocator requested it, or the library is
/// unknown.
pub(super) fn is_pools(replay: &Replay, stacks: StackKey) -> bool {
    library(&replay.names, stacks, Level::DRIVER).is_none_or(|name| name == PYTORCH_ALLOCATOR)
}

/// A segment of the pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub address: u64,
    pub bytes: u64,
    pub expandable: bool,
    /// The stacks that allocated it; of an expandable segment, those of its first mapping.
    pub stacks: StackKey,
    pub blocks: Vec<InSegment>,
}

/// A block of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InSegment {
    pub address: u64,
    pub bytes: u64,
    /// The stacks of the tensor; `None` if the block is free.
    pub tensor: Option<StackKey>,
}

impl Segment {
    /// Bytes of its tensors.
    pub fn in_use(&self) -> u64 {
        let tensors = self.blocks.iter().filter(|block| block.tensor.is_some());
        tensors.map(|block| block.bytes).sum()
    }

    fn end(&self) -> u64 {
        self.address.saturating_add(self.bytes)
    }
}

/// The segments of a device at the end, by address. A tensor outside all segments gets a separate segment, for
/// example if the driver level was not recorded.
pub(super) fn segments(replay: &Replay, device: DeviceOrdinal) -> Vec<Segment> {
    let mut segments = pool(replay, device);
    let row = replay.levels.get(&(device, Level::TENSOR));
    let mut tensors: Vec<(u64, Block)> =
        row.into_iter().flat_map(|row| row.live_blocks()).collect();
    tensors.sort_unstable_by_key(|(address, _)| *address);
    let mut strays = Vec::new();
    let mut at = 0;
    for (address, block) in tensors.into_iter().filter(|(_, block)| block.bytes > 0) {
        while segments
            .get(at)
            .is_some_and(|segment| segment.end() <= address)
        {
            at += 1;
        }
        let tensor = InSegment {
            address,
            bytes: block.bytes,
            tensor: Some(replay.stacks(block.key)),
        };
        let end = address.saturating_add(block.bytes);
        let fits = |segment: &&mut Segment| {
            let free_from = segment
                .blocks
                .last()
                .map_or(segment.address, |last| last.address + last.bytes);
            free_from <= address && end <= segment.end()
        };
        match segments.get_mut(at).filter(fits) {
            Some(segment) => fill(segment, Some(tensor)),
            None => strays.push(Segment {
                address,
                bytes: block.bytes,
                expandable: false,
                stacks: StackKey::default(),
                blocks: vec![tensor],
            }),
        }
    }
    for segment in &mut segments {
        fill(segment, None);
    }
    segments.extend(strays);
    segments.sort_by_key(|segment| segment.address);
    segments
}

/// Adds the free block before the next tensor or the segment's end, and the tensor.
fn fill(segment: &mut Segment, tensor: Option<InSegment>) {
    let last = segment.blocks.last();
    let free_from = last.map_or(segment.address, |last| last.address + last.bytes);
    let next = tensor.map_or(segment.end(), |tensor| tensor.address);
    if free_from < next {
        segment.blocks.push(InSegment {
            address: free_from,
            bytes: next - free_from,
            tensor: None,
        });
    }
    segment.blocks.extend(tensor);
}

/// The pool's mappings of handles, by address: address, bytes, the stacks of the handle.
pub(super) fn mappings(
    replay: &Replay,
    device: DeviceOrdinal,
) -> impl Iterator<Item = (u64, u64, StackKey)> {
    let row = replay.levels.get(&(device, Level::DRIVER));
    let mappings = replay.objects.mappings.iter();
    mappings.filter_map(move |(address, mapping)| {
        let handle = row?.handle(mapping.handle)?;
        let stacks = replay.stacks(handle.key);
        is_pools(replay, stacks).then_some((*address, mapping.bytes, stacks))
    })
}

/// The pool's segments without their blocks, by address. None overlap.
fn pool(replay: &Replay, device: DeviceOrdinal) -> Vec<Segment> {
    let row = replay.levels.get(&(device, Level::DRIVER));
    let mut segments: Vec<Segment> = Vec::new();
    let new = |address, bytes, expandable, stacks| Segment {
        address,
        bytes,
        expandable,
        stacks,
        blocks: Vec::new(),
    };
    let not_memory = EventFlags::MANAGED.0 | EventFlags::ARRAY.0 | EventFlags::GRAPH.0;
    for (address, block) in row.into_iter().flat_map(|row| row.live_blocks()) {
        let stacks = replay.stacks(block.key);
        let is_plain = block.flags.0 & (not_memory | EventFlags::VMM_HANDLE.0) == 0;
        if is_plain && block.bytes > 0 && is_pools(replay, stacks) {
            segments.push(new(address, block.bytes, false, stacks));
        }
    }
    for (address, bytes, stacks) in mappings(replay, device) {
        let starts = replay.objects.address_space.contains_key(&address);
        match segments.last_mut() {
            Some(run) if run.expandable && !starts && run.end() == address => {
                run.bytes = run.bytes.saturating_add(bytes);
            }
            _ => segments.push(new(address, bytes, true, stacks)),
        }
    }
    segments.sort_by_key(|segment| (segment.address, segment.bytes));
    let mut end = 0;
    segments.retain(|segment| {
        let apart = segment.address >= end;
        end = end.max(segment.end());
        apart
    });
    segments
}

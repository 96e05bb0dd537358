//! The history of blocks in the data of a page: columns of numbers.
//!
//! The columns, one after the other (`u`: unsigned, `s`: signed):
//!
//! | of | column | |
//! |---|---|---|
//! | events | event | u: by how much it is greater than the one before |
//! | | time | s: ns, likewise |
//! | blocks | allocated | u: number of the event, by how much it is greater than the block before |
//! | | freed | u: 0: live at the end; else by how many events later, and 1 more than that |
//! | | released | u: 0: at once; 1: not until the end; else by how many events after the free, and 2 more than that |
//! | | bytes | u |
//! | | address | s: by how much it is greater than that of the block before |
//! | | slack | u: 0: not known; else 1 more than it |
//! | | stack | u: 0: not in the page; else 1 more than its number |
//! | | category | u: see [`Category::ALL`], 1 more than its place; 0: none |
//! | | placement | u: 0: the default stream's part of the default pool; 1: not known; else 2 more than its place in the page |
//! | | kind | u: a sum: see [`kind`] |
//! | | library | u: not of tensors; 0: not known; else 1 more than its place in the page |
//! | | freed by | u: 0: not known, or not in the page; else 1 more than the stack's number |

use std::cmp::Reverse;
use std::collections::BTreeMap;

use gpumem_capture::{DeviceOrdinal, EventFlags, Level, Nanos, Seq};
use serde::{Serialize, Serializer};

use super::input::{PageLimits, PageSources};
use super::libraries::Libraries;
use super::stacks::Build;
use crate::attribution::PYTORCH_ALLOCATOR;
use crate::packed::{number, signed, text};
use crate::replay::{Backing, Category, Replay};
use crate::views::{DeviceTimeline, PastBlock, PastBlocks, PastLevel, Placed};

/// The history of a level's blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PageHistory {
    /// Which level.
    pub level: &'static str,
    /// How many blocks there were.
    pub all: u64,
    /// How many are in the page.
    pub blocks: usize,
    /// Events at which one of these was allocated, freed or released.
    pub events: usize,
    /// Whether no block is left out.
    pub whole: bool,
    /// The stretches without omitted blocks: their first and their last event.
    pub stretches: Vec<[u64; 2]>,
    /// Event, time and bytes of the level at the largest point of each stretch of the timeline, and at the end of the
    /// stretch.
    pub points: Vec<[u64; 3]>,
    /// The columns.
    #[serde(serialize_with = "as_text")]
    pub columns: Vec<u8>,
}

fn as_text<S: Serializer>(columns: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    let text = text(columns).map_err(serde::ser::Error::custom)?;
    text.serialize(serializer)
}

pub(super) fn placements(blocks: &PastBlocks) -> Vec<[u64; 3]> {
    let placements = blocks.placements.iter();
    placements
        .map(|of| [of.stream, of.pool.0, of.pool.1])
        .collect()
}

/// The histories of a device's levels with blocks.
pub(super) fn histories(
    device: &DeviceTimeline,
    levels: &[Level],
    from: &PageSources<'_>,
    names: (&Build<'_>, &Libraries),
    limits: PageLimits,
) -> Vec<PageHistory> {
    let ordinal = device.device.map_or(DeviceOrdinal::NONE, DeviceOrdinal);
    let all = from.blocks.levels.iter();
    all.filter(|of| of.device == ordinal && levels.contains(&of.level) && of.count > 0)
        .map(|of| history(device, of, from.replay, names, limits))
        .collect()
}

fn history(
    device: &DeviceTimeline,
    of: &PastLevel,
    replay: &Replay,
    names: (&Build<'_>, &Libraries),
    limits: PageLimits,
) -> PageHistory {
    let is_cut = of.blocks.len() > limits.blocks;
    let mut blocks: Vec<&PastBlock> = of.blocks.iter().collect();
    if is_cut {
        let area = |block: &PastBlock| {
            let ended = block.ended.map_or(replay.last, |(_, ended)| ended);
            u128::from(block.bytes) * u128::from(ended.0.saturating_sub(block.made.1.0).max(1))
        };
        blocks.sort_by_key(|block| Reverse(area(block)));
        blocks.truncate(limits.blocks);
        blocks.sort_by_key(|block| block.made.0);
    }
    let events = events(&blocks);
    let whole = if is_cut { &[][..] } else { &of.whole };
    PageHistory {
        level: match of.level {
            Level::TENSOR => "tensor",
            Level::HOST => "host",
            _ => "driver",
        },
        all: of.count,
        blocks: blocks.len(),
        events: events.len(),
        whole: of.is_all && !is_cut,
        stretches: whole.iter().map(|of| [of.from.0, of.to.0]).collect(),
        points: points(device, of, limits),
        columns: columns(&blocks, &events, of, replay, names),
    }
}

/// The release of a block that is still waiting at the end.
const NOT_YET: Seq = Seq(u64::MAX);

/// The events of blocks, in order, with their times.
fn events(blocks: &[&PastBlock]) -> Vec<(Seq, Nanos)> {
    let all = blocks.iter().flat_map(|block| {
        let released = block.released.filter(|(seq, _)| *seq != NOT_YET);
        [Some(block.made), block.ended, released]
    });
    let by_seq: BTreeMap<Seq, Nanos> = all.flatten().collect();
    by_seq.into_iter().collect()
}

fn points(device: &DeviceTimeline, of: &PastLevel, limits: PageLimits) -> Vec<[u64; 3]> {
    let name = of.level.name();
    let together = device.buckets.len().div_ceil(limits.buckets.max(1)).max(1);
    let begins = of.begins.iter();
    let mut points: Vec<[u64; 3]> = begins
        .map(|(seq, time, bytes)| [seq.0, time.0, *bytes])
        .collect();
    for buckets in device.buckets.chunks(together) {
        let peaks = buckets.iter().flat_map(|bucket| &bucket.peaks);
        let peaks = peaks.filter(|peak| peak.level == name);
        // Of equal ones, the first.
        let most = peaks.max_by_key(|peak| (peak.bytes, Reverse(peak.seq)));
        points.extend(most.map(|most| [most.seq, most.time_ns, most.bytes]));
        points.extend(buckets.last().map(|bucket| {
            let last = &bucket.last;
            let bytes = match of.level {
                Level::TENSOR => last.tensor_bytes,
                Level::HOST => last.host_bytes,
                _ => last.driver_bytes,
            };
            [last.seq, last.time_ns, bytes]
        }));
    }
    points.sort_unstable();
    points.dedup();
    points
}

fn columns(
    blocks: &[&PastBlock],
    events: &[(Seq, Nanos)],
    of: &PastLevel,
    replay: &Replay,
    (stacks, libraries): (&Build<'_>, &Libraries),
) -> Vec<u8> {
    let mut out = Vec::new();
    let level = of.level;
    let at = |seq: Seq| events.partition_point(|(of, _)| *of < seq) as u64;
    let (mut seq, mut time) = (0, 0);
    for (of, _) in events {
        number(of.0 - seq, &mut out);
        seq = of.0;
    }
    for (_, of) in events {
        signed(of.0.wrapping_sub(time) as i64, &mut out);
        time = of.0;
    }
    let mut before = 0;
    for block in blocks {
        let made = at(block.made.0);
        number(made - before, &mut out);
        before = made;
    }
    for block in blocks {
        let later = |ended| at(ended).saturating_sub(at(block.made.0)) + 1;
        number(block.ended.map_or(0, |(ended, _)| later(ended)), &mut out);
    }
    for block in blocks {
        let ended = block.ended.map_or(0, |(ended, _)| at(ended));
        let released = match block.released {
            None => 0,
            Some((NOT_YET, _)) => 1,
            Some((seq, _)) => at(seq).saturating_sub(ended) + 2,
        };
        number(released, &mut out);
    }
    for block in blocks {
        number(block.bytes, &mut out);
    }
    let mut before = 0_u64;
    for block in blocks {
        signed(block.address.wrapping_sub(before) as i64, &mut out);
        before = block.address;
    }
    for block in blocks {
        let slack = block.slack.map_or(0, |slack| u64::from(slack) + 1);
        number(slack, &mut out);
    }
    for block in blocks {
        let stack = stacks.number(level, block.stacks.with_category(block.category));
        number(stack.map_or(0, |stack| u64::from(stack) + 1), &mut out);
    }
    for block in blocks {
        let place = Category::ALL.iter().position(|of| *of == block.category);
        number(place.map_or(0, |place| place as u64 + 1), &mut out);
    }
    for block in blocks {
        let placement = match block.placement {
            Placed::Default => 0,
            Placed::Unknown => 1,
            Placed::Part(place) => u64::from(place) + 2,
        };
        number(placement, &mut out);
    }
    let has_pool = replay.levels.contains_key(&(of.device, Level::TENSOR));
    for block in blocks {
        number(kind(block, level, libraries, has_pool), &mut out);
    }
    for block in blocks.iter().filter(|_| level != Level::TENSOR) {
        let library = libraries.number(level, block.stacks);
        number(library.map_or(0, |number| number as u64 + 1), &mut out);
    }
    for block in blocks {
        let stack = block.freed_by.and_then(|by| stacks.number(level, by));
        number(stack.map_or(0, |stack| u64::from(stack) + 1), &mut out);
    }
    out
}

/// The kind of a block's memory, as a sum. 1: of a VMM handle. 2: in PyTorch's pool. 4: managed. 8: an array. 16: in
/// one of CUDA's own pools. 32: of a graph's node. 64: possibly in a pool, because the caller is not known. 128: host
/// memory that the program provided.
fn kind(block: &PastBlock, level: Level, libraries: &Libraries, has_pool: bool) -> u64 {
    let has = |flag| block.flags.contains(flag);
    let backing = Backing::of(block.flags);
    let may_be_cut =
        level == Level::DRIVER && has_pool && matches!(backing, Backing::Pages | Backing::Handle);
    let library = libraries.name(level, block.stacks);
    [
        (block.is_handle, 1),
        (may_be_cut && library == Some(PYTORCH_ALLOCATOR), 2),
        (has(EventFlags::MANAGED), 4),
        (has(EventFlags::ARRAY), 8),
        (backing == Backing::Pool, 16),
        (backing == Backing::Graph, 32),
        (may_be_cut && library.is_none(), 64),
        (has(EventFlags::REGISTERED), 128),
    ]
    .into_iter()
    .filter_map(|(is, bit)| is.then_some(bit))
    .sum()
}

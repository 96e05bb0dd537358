//! PyTorch's pool at a point in time: its segments, and the tensors that pin them.

use std::collections::BTreeMap;

use gpumem_capture::EventFlags;
use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::Serialize;

use super::Place;
use super::tensors::Tensors;
use crate::attribution::Owner;
use crate::replay::{Block, Figure, Objects};

/// PyTorch's pool on one GPU at the point in time. Free blocks are the gaps between live tensors; a block that waits
/// for another stream counts as free.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Pool {
    /// Bytes that the pool has reserved from the driver.
    pub reserved_bytes: u64,
    /// Bytes of the live tensors.
    pub live_bytes: u64,
    /// Reserved but unallocated bytes: `reserved_bytes` minus `live_bytes`.
    pub cached_bytes: u64,
    /// Size in bytes of the largest free block, the largest tensor that fits without a request to the driver; 0 if
    /// there is no free block.
    pub largest_free_block_bytes: u64,
    /// Bytes that `torch.cuda.empty_cache()` would return to the driver.
    pub reclaimable_bytes: u64,
    /// Segments of the pool, the largest first; empty if the driver level was not recorded.
    pub segments: Vec<Segment>,
    /// Lines that own tensors in the segments, those with the most `given_back_bytes` first.
    pub lines: Vec<PoolLine>,
}

/// A segment: a driver allocation, or a run of adjacent mappings of an expandable segment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Segment {
    /// Address of the first byte.
    pub address: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// Whether the segment is part of an expandable segment (`expandable_segments:True`).
    pub expandable: bool,
    /// Bytes of the live tensors in the segment.
    pub live_bytes: u64,
    /// Number of the live tensors in the segment.
    pub blocks: u64,
    /// Unallocated bytes of the segment: `bytes` minus `live_bytes`.
    pub cached_bytes: u64,
    /// Size in bytes of the largest gap between the live tensors; 0 if there is no gap.
    pub largest_free_block_bytes: u64,
    /// Bytes of the segment that `torch.cuda.empty_cache()` would return to the driver: all of it if it has no tensor,
    /// or the mappings of an expandable segment that no tensor touches.
    pub reclaimable_bytes: u64,
    /// Bytes of the segment that cannot be returned to the driver because of live tensors: `bytes` minus
    /// `reclaimable_bytes`.
    pub pinned_bytes: u64,
    /// The line whose allocation led the pool to reserve the segment.
    #[serde(flatten)]
    pub place: Place,
    /// The owner of `place`.
    #[serde(skip)]
    pub owner: Option<Owner>,
    /// Lines that own live tensors in the segment, the largest first; empty if it has no live tensor.
    pub lines: Vec<SegmentLine>,
    /// The gaps between the tensors: address and size, in order.
    #[serde(skip)]
    pub gaps: Vec<(u64, u64)>,
}

/// Live tensors of one line in one segment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SegmentLine {
    /// The line that allocated the tensors.
    #[serde(flatten)]
    pub place: Place,
    /// Library that allocated the tensors, if no Python line did; `None` otherwise.
    pub library: Option<String>,
    /// Bytes of the line's live tensors in the segment.
    pub bytes: u64,
    /// Number of the line's live tensors in the segment.
    pub blocks: u64,
    /// The owner of `place`.
    #[serde(skip)]
    pub owner: Owner,
}

/// Live tensors of one line in the segments of the pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PoolLine {
    /// The line that allocated the tensors.
    #[serde(flatten)]
    pub place: Place,
    /// Library that allocated the tensors, if no Python line did; `None` otherwise.
    pub library: Option<String>,
    /// Bytes of the line's live tensors in the pool.
    pub bytes: u64,
    /// Number of the line's live tensors in the pool.
    pub blocks: u64,
    /// Number of segments that contain live tensors of the line.
    pub segments: u64,
    /// Further bytes that `torch.cuda.empty_cache()` would return if only the tensors of this line were freed: the
    /// memory that tensors of no other line pin.
    pub given_back_bytes: u64,
    /// The owner of `place`.
    #[serde(skip)]
    pub owner: Owner,
}

/// A range of a segment that can be freed separately.
#[derive(Clone, Copy, Debug)]
struct Unit {
    address: u64,
    bytes: u64,
}

/// The pool's driver memory, added block by block.
#[derive(Debug)]
pub(super) struct Segments<'a> {
    objects: &'a Objects,
    /// The mappings of each VMM handle.
    mapped: FxHashMap<u64, Vec<Unit>>,
    plain: Vec<(Unit, Owner)>,
    expandable: BTreeMap<u64, (Unit, Owner)>,
}

impl<'a> Segments<'a> {
    pub fn new(objects: &'a Objects) -> Self {
        let mut mapped: FxHashMap<u64, Vec<Unit>> = FxHashMap::default();
        for (address, mapping) in &objects.mappings {
            let unit = Unit {
                address: *address,
                bytes: mapping.bytes,
            };
            mapped.entry(mapping.handle).or_default().push(unit);
        }
        Self {
            objects,
            mapped,
            plain: Vec::new(),
            expandable: BTreeMap::new(),
        }
    }

    fn units(&self, address: u64, block: &Block) -> Vec<Unit> {
        if block.flags.contains(EventFlags::VMM_HANDLE) {
            return self.mapped.get(&address).cloned().unwrap_or_default();
        }
        vec![Unit {
            address,
            bytes: block.bytes,
        }]
    }

    /// Whether a driver block contains a tensor.
    pub fn holds_a_tensor(&self, address: u64, block: &Block, tensors: &Tensors) -> bool {
        self.units(address, block).iter().any(|unit| {
            let end = unit.address.saturating_add(unit.bytes);
            tensors.touching(unit.address, end).next().is_some()
        })
    }

    /// Adds a driver block of the pool.
    pub fn add(&mut self, address: u64, block: &Block, owner: Owner) {
        let units = self.units(address, block);
        if block.flags.contains(EventFlags::VMM_HANDLE) {
            // Memory that is mapped twice counts once, at the first address.
            let first = units.into_iter().next();
            self.expandable
                .extend(first.map(|unit| (unit.address, (unit, owner))));
        } else {
            self.plain
                .extend(units.into_iter().map(|unit| (unit, owner.clone())));
        }
    }

    /// The pool with these tensors.
    pub fn pool(self, reserved: u64, tensors: &Tensors) -> Pool {
        let mut lines: BTreeMap<Owner, PoolLine> = BTreeMap::new();
        let mut segments = Vec::new();
        let runs = runs(self.expandable.into_values(), self.objects);
        let plain = self
            .plain
            .into_iter()
            .map(|(unit, owner)| (vec![unit], owner, false));
        for (units, owner, expandable) in plain.chain(runs) {
            segments.push(segment(&units, owner, expandable, tensors, &mut lines));
        }
        segments.sort_by(|a, b| (b.bytes, a.address).cmp(&(a.bytes, b.address)));
        let mut lines: Vec<PoolLine> = lines.into_values().collect();
        lines.sort_by(|a, b| {
            (b.given_back_bytes, b.bytes, &a.owner).cmp(&(a.given_back_bytes, a.bytes, &b.owner))
        });
        let live = tensors.bytes();
        Pool {
            reserved_bytes: reserved,
            live_bytes: live,
            cached_bytes: reserved.saturating_sub(live),
            largest_free_block_bytes: segments
                .iter()
                .map(|segment| segment.largest_free_block_bytes)
                .max()
                .unwrap_or(0),
            reclaimable_bytes: segments
                .iter()
                .map(|segment| segment.reclaimable_bytes)
                .sum(),
            segments,
            lines,
        }
    }
}

/// Adjacent mappings in one range of reserved address space.
fn runs(
    units: impl Iterator<Item = (Unit, Owner)>,
    objects: &Objects,
) -> Vec<(Vec<Unit>, Owner, bool)> {
    let mut out: Vec<(Vec<Unit>, Owner, bool)> = Vec::new();
    for (unit, owner) in units {
        let starts = objects.address_space.contains_key(&unit.address);
        match out.last_mut() {
            Some((run, _, _)) if !starts && end_of(run) == unit.address => run.push(unit),
            _ => out.push((vec![unit], owner, true)),
        }
    }
    out
}

fn end_of(units: &[Unit]) -> u64 {
    units
        .last()
        .map_or(0, |unit| unit.address.saturating_add(unit.bytes))
}

fn segment(
    units: &[Unit],
    owner: Owner,
    expandable: bool,
    tensors: &Tensors,
    lines: &mut BTreeMap<Owner, PoolLine>,
) -> Segment {
    let start = units.first().map_or(0, |unit| unit.address);
    let end = end_of(units);
    let mut by_owner: BTreeMap<&Owner, Figure> = BTreeMap::new();
    let (mut free_from, mut gaps) = (start, Vec::new());
    for (address, bytes, owner) in tensors.within(start, end) {
        gaps.push((free_from, address.saturating_sub(free_from)));
        free_from = free_from.max(address.saturating_add(bytes));
        *by_owner.entry(owner).or_default() += Figure { bytes, blocks: 1 };
    }
    gaps.push((free_from, end.saturating_sub(free_from)));
    gaps.retain(|(_, bytes)| *bytes > 0);
    let mut reclaimable = 0;
    for unit in units {
        let mut owners = tensors.touching(unit.address, unit.address.saturating_add(unit.bytes));
        match owners.next() {
            None => reclaimable += unit.bytes,
            Some(first) if owners.all(|owner| owner == first) => {
                line(lines, first).given_back_bytes += unit.bytes;
            }
            Some(_) => {}
        }
    }
    for (owner, figure) in &by_owner {
        let line = line(lines, owner);
        line.bytes += figure.bytes;
        line.blocks += figure.blocks;
        line.segments += 1;
    }
    let live = by_owner.values().map(|figure| figure.bytes).sum();
    let mut rows: Vec<SegmentLine> = by_owner
        .iter()
        .map(|(owner, figure)| SegmentLine {
            place: Place::of(Some(owner)),
            library: owner.library(),
            bytes: figure.bytes,
            blocks: figure.blocks,
            owner: (*owner).clone(),
        })
        .collect();
    rows.sort_by(|a, b| (b.bytes, &a.owner).cmp(&(a.bytes, &b.owner)));
    let bytes = end.saturating_sub(start);
    Segment {
        address: start,
        bytes,
        expandable,
        live_bytes: live,
        blocks: by_owner.values().map(|figure| figure.blocks).sum(),
        cached_bytes: bytes.saturating_sub(live),
        largest_free_block_bytes: gaps.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0),
        reclaimable_bytes: reclaimable,
        pinned_bytes: bytes.saturating_sub(reclaimable),
        place: Place::of(Some(&owner)),
        owner: Some(owner),
        lines: rows,
        gaps,
    }
}

fn line<'a>(lines: &'a mut BTreeMap<Owner, PoolLine>, owner: &Owner) -> &'a mut PoolLine {
    lines.entry(owner.clone()).or_insert_with(|| PoolLine {
        place: Place::of(Some(owner)),
        library: owner.library(),
        bytes: 0,
        blocks: 0,
        segments: 0,
        given_back_bytes: 0,
        owner: owner.clone(),
    })
}

//! What a device held before its trace begins.
//!
//! The trace is the end of a ring, so older entries may be missing. Blocks existed before the trace if it frees them
//! without an allocation, or if they are in use at the end and it has no allocation of them.

use rustc_hash::FxHashMap;

use super::entry::{Action, Entry};
use super::fields::PoolId;
use super::snapshot::{Segment, Snapshot, SnapshotError};
use super::spans::Spans;
use crate::pickle::ListId;

/// What existed before the trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Before {
    /// Blocks.
    pub blocks: u64,
    /// Their bytes.
    pub bytes: u64,
    /// How many have no stack.
    pub without_stack: u64,
    /// Their bytes.
    pub bytes_without_stack: u64,
    /// Reserved bytes.
    pub reserved: u64,
}

/// A block or a segment that existed before the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Older {
    pub address: u64,
    pub bytes: u64,
    pub stream: Option<u64>,
    pub pool: Option<PoolId>,
    pub frames: Option<ListId>,
    /// Whether the requested bytes are known.
    pub is_exact: bool,
}

impl Older {
    fn freed_by(entry: &Entry) -> Self {
        Self {
            address: entry.address,
            bytes: entry.bytes,
            stream: entry.stream,
            pool: entry.pool,
            frames: None,
            is_exact: true,
        }
    }
}

/// Segments of one size that existed before the trace, by address.
pub(super) fn segments(
    snapshot: &Snapshot<'_>,
    trace: Option<ListId>,
    at_end: &[&Segment],
) -> Result<Vec<Older>, SnapshotError> {
    let plain = at_end.iter().filter(|segment| !segment.expandable);
    let plain = plain.map(|segment| Older {
        address: segment.address,
        bytes: segment.bytes,
        stream: segment.stream,
        pool: segment.pool,
        frames: segment.frames,
        is_exact: true,
    });
    let frees = |action| action == Action::SegmentFree;
    older(snapshot, trace, plain, Action::SegmentAlloc, frees)
}

/// Blocks that were live before the trace, by address.
pub(super) fn blocks(
    snapshot: &Snapshot<'_>,
    trace: Option<ListId>,
    at_end: &[&Segment],
) -> Result<Vec<Older>, SnapshotError> {
    let blocks = at_end.iter().flat_map(|segment| {
        let live = segment.blocks.iter().filter(|block| !block.waits);
        live.map(|block| Older {
            address: block.address,
            bytes: block.bytes,
            stream: segment.stream,
            pool: segment.pool,
            frames: block.frames,
            is_exact: block.is_exact,
        })
    });
    let frees = |action| matches!(action, Action::FreeRequested | Action::FreeCompleted);
    older(snapshot, trace, blocks, Action::Alloc, frees)
}

/// Memory whose first entry is a free, and memory at the end that has no entries.
fn older(
    snapshot: &Snapshot<'_>,
    trace: Option<ListId>,
    at_end: impl Iterator<Item = Older>,
    alloc: Action,
    frees: impl Fn(Action) -> bool,
) -> Result<Vec<Older>, SnapshotError> {
    let mut first: FxHashMap<u64, Option<Older>> = FxHashMap::default();
    for entry in trace.into_iter().flat_map(|trace| snapshot.entries(trace)) {
        let entry = entry?;
        if entry.action == alloc {
            first.entry(entry.address).or_insert(None);
        } else if frees(entry.action) {
            let older = || Some(Older::freed_by(&entry));
            first.entry(entry.address).or_insert_with(older);
        }
    }
    let mut older: Vec<Older> = at_end
        .filter(|block| !first.contains_key(&block.address))
        .collect();
    older.extend(first.into_values().flatten());
    older.sort_by_key(|block| block.address);
    older.dedup_by_key(|block| block.address);
    Ok(older)
}

/// What was mapped before the trace: the mappings at the end, with all entries undone from the last one on.
pub(super) fn mapped(
    snapshot: &Snapshot<'_>,
    trace: Option<ListId>,
    at_end: &[&Segment],
) -> Result<Vec<(u64, u64)>, SnapshotError> {
    let mut spans = Spans::default();
    for segment in at_end.iter().filter(|segment| segment.expandable) {
        let end = segment.address.saturating_add(segment.bytes);
        spans.remove(segment.address, end);
        spans.add(segment.address, end, ());
    }
    for entry in trace
        .into_iter()
        .flat_map(|trace| snapshot.entries(trace).rev())
    {
        let entry = entry?;
        let end = entry.address.saturating_add(entry.bytes);
        match entry.action {
            Action::Map => drop(spans.remove(entry.address, end)),
            Action::Unmap => {
                spans.remove(entry.address, end);
                spans.add(entry.address, end, ());
            }
            _ => {}
        }
    }
    Ok(spans.iter().map(|(start, end, ())| (start, end)).collect())
}

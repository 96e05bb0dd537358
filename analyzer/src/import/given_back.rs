//! Why segments were returned to the driver, as far as a trace shows it.
//!
//! PyTorch frees segments on request (`empty_cache`, the end of a `MemPool`), and by itself before it requests more
//! memory from the driver. In the second case, the entries have the stack of the allocation that caused them, and the
//! next entry is the segment (or failure) of this allocation. All others were requested.

use std::collections::BTreeSet;

use rustc_hash::{FxHashMap, FxHashSet};

use super::entry::{Action, Entry};
use super::fields::PoolId;
use super::snapshot::{Snapshot, SnapshotError};
use crate::pickle::ListId;

/// The maximum number of frames of a stack that are compared.
const FRAMES: usize = 64;

/// A request of the program to the allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    /// Frees cached segments of one pool, or of all.
    EmptyCache(PoolId),
    /// The pool has no more users.
    ReleasePool(PoolId),
}

/// The result for a device's trace. Entries are identified by their index in it.
#[derive(Debug, Default)]
pub(super) struct GivenBack {
    calls: FxHashMap<u64, Vec<Call>>,
    /// The number and bytes of segments that were freed for unknown reasons.
    pub unexplained: (u64, u64),
}

/// Consecutive entries that free segments with the same stack.
struct Run {
    first: u64,
    frames: Option<ListId>,
    pools: BTreeSet<PoolId>,
    segments: u64,
    bytes: u64,
}

impl Run {
    fn new(first: u64, frames: Option<ListId>) -> Self {
        Self {
            first,
            frames,
            pools: BTreeSet::new(),
            segments: 0,
            bytes: 0,
        }
    }
}

impl GivenBack {
    pub fn of(snapshot: &Snapshot<'_>, trace: Option<ListId>) -> Result<Self, SnapshotError> {
        let mut given = Self::default();
        let mut released = FxHashSet::default();
        let mut run: Option<Run> = None;
        let entries = trace.into_iter().flat_map(|trace| snapshot.entries(trace));
        for (number, entry) in (0..).zip(entries) {
            let entry = entry?;
            match entry.action {
                Action::SegmentFree | Action::Unmap => {
                    let other = |run: &mut Run| !is_same(snapshot, run.frames, entry.frames);
                    if let Some(before) = run.take_if(other) {
                        given.close(snapshot, before, None, &mut released);
                    }
                    let run = run.get_or_insert_with(|| Run::new(number, entry.frames));
                    run.pools.insert(entry.pool.unwrap_or_default());
                    run.segments += 1;
                    run.bytes = run.bytes.saturating_add(entry.bytes);
                }
                // Deferred releases are completed first.
                Action::FreeCompleted => {
                    if run.is_none() && is_empty_cache(snapshot, entry.frames) {
                        run = Some(Run::new(number, entry.frames));
                    }
                }
                _ => {
                    if let Some(before) = run.take() {
                        given.close(snapshot, before, Some(&entry), &mut released);
                    }
                }
            }
        }
        if let Some(before) = run {
            given.close(snapshot, before, None, &mut released);
        }
        Ok(given)
    }

    fn close(
        &mut self,
        snapshot: &Snapshot<'_>,
        run: Run,
        next: Option<&Entry>,
        released: &mut FxHashSet<PoolId>,
    ) {
        let grows = next.filter(|next| {
            let actions = [Action::SegmentAlloc, Action::Map, Action::OutOfMemory];
            actions.contains(&next.action)
        });
        let is_asked = is_empty_cache(snapshot, run.frames)
            || grows.is_none_or(|next| !is_same(snapshot, run.frames, next.frames));
        let is_blind = |frames: Option<ListId>| {
            frames.is_none_or(|frames| snapshot.frames(frames).next().is_none())
        };
        if !is_asked && is_blind(run.frames) {
            self.unexplained.0 += run.segments;
            self.unexplained.1 = self.unexplained.1.saturating_add(run.bytes);
        }
        let calls = self.calls.entry(run.first).or_default();
        for pool in run.pools.iter().filter(|pool| **pool != (0, 0)) {
            // A pool's segments are freed only when it has no users.
            if released.insert(*pool) {
                calls.push(Call::ReleasePool(*pool));
            }
        }
        if is_asked {
            let only = run.pools.first().filter(|_| run.pools.len() == 1);
            let pool = only.filter(|_| !is_empty_cache(snapshot, run.frames));
            calls.push(Call::EmptyCache(pool.copied().unwrap_or_default()));
        }
    }

    /// Requests before an entry.
    pub fn calls(&mut self, entry: u64) -> Vec<Call> {
        self.calls.remove(&entry).unwrap_or_default()
    }
}

/// Whether a stack contains Python's `empty_cache`.
fn is_empty_cache(snapshot: &Snapshot<'_>, frames: Option<ListId>) -> bool {
    let frames = frames.into_iter().flat_map(|list| snapshot.frames(list));
    frames.take(FRAMES).any(|frame| {
        let frame = snapshot.frame(frame);
        let text = |text| snapshot.bytes(text);
        let file = frame.file.map_or(&b""[..], text);
        frame.name.map(text) == Some(b"empty_cache")
            && (file.ends_with(b"torch/cuda/memory.py")
                || file.ends_with(b"torch/accelerator/memory.py"))
    })
}

/// Whether two stacks are equal, up to the maximum number of frames.
fn is_same(snapshot: &Snapshot<'_>, a: Option<ListId>, b: Option<ListId>) -> bool {
    let frames = |list: Option<ListId>| {
        let frames = list.into_iter().flat_map(|list| snapshot.frames(list));
        frames.take(FRAMES).map(|frame| {
            let frame = snapshot.frame(frame);
            let text = |text| snapshot.bytes(text);
            (frame.file.map(text), frame.name.map(text), frame.line)
        })
    };
    a == b || frames(a).eq(frames(b))
}

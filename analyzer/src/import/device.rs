//! One device of a snapshot: what was there before its trace begins, and the trace's entries as events.
//!
//! The trace is the end of a ring: older entries may have gone. What is freed in it without an allocation,
//! and what is in use at the end and was not allocated in it, was there before. The segments are the
//! truth of the end: where the trace leads elsewhere (entries can be left out when they are recorded), what is
//! missing is put in and marked, so that the account says so.

use gpumem_capture::{DeviceOrdinal, Nanos};
use rustc_hash::FxHashMap;

use super::capture::CaptureError;
use super::error::ImportError;
use super::frames::Stacks;
use super::memory::{At, Memory, With};
use super::snapshot::{Action, Entry, Segment, Snapshot, SnapshotError};
use super::spans::Spans;
use crate::pickle::ListId;

/// What was there before the trace.
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
}

/// A block that was there before the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Older {
    address: u64,
    bytes: u64,
    frames: Option<ListId>,
}

/// A device.
pub(super) struct Device<'a> {
    trace: Option<ListId>,
    segments: Vec<&'a Segment>,
    memory: Memory,
}

impl<'a> Device<'a> {
    pub fn new(ordinal: u8, trace: Option<ListId>, segments: Vec<&'a Segment>) -> Self {
        Self {
            trace,
            segments,
            memory: Memory::new(DeviceOrdinal(ordinal)),
        }
    }

    pub fn trace(&self) -> Option<ListId> {
        self.trace
    }

    pub fn ordinal(&self) -> u8 {
        self.memory.ordinal.0
    }

    /// Writes what was there before the trace.
    pub fn begin(&mut self, with: &mut With<'_, '_>) -> Result<Before, ImportError> {
        let snapshot = with.snapshot;
        let segments = self.segments.clone();
        let plain = segments.iter().filter(|segment| !segment.expandable);
        let plain = plain.map(|segment| Older {
            address: segment.address,
            bytes: segment.bytes,
            frames: segment.frames,
        });
        let kinds = (Action::SegmentAlloc, Action::SegmentFree);
        for segment in self.older(snapshot, plain, kinds)? {
            let stacks = with.frames.stacks(snapshot, segment.frames, with.out)?;
            self.memory.segment(
                segment.address,
                segment.bytes,
                At::told(stacks, Nanos(0)),
                with,
            )?;
        }
        for (start, end) in self.mapped_before(snapshot)? {
            let within = |segment: &&&Segment| segment.expandable && segment.address <= start;
            let segment = segments
                .iter()
                .filter(within)
                .max_by_key(|segment| segment.address);
            let frames = segment
                .filter(|segment| start < segment.address.saturating_add(segment.bytes))
                .and_then(|segment| segment.frames);
            let stacks = with.frames.stacks(snapshot, frames, with.out)?;
            self.memory
                .map(start, end, At::told(stacks, Nanos(0)), with)?;
        }
        let blocks = segments.iter().flat_map(|segment| &segment.blocks);
        let blocks = blocks.map(|block| Older {
            address: block.address,
            bytes: block.bytes,
            frames: block.frames,
        });
        let mut before = Before::default();
        for block in self.older(snapshot, blocks, (Action::Alloc, Action::Free))? {
            let stacks = with.frames.stacks(snapshot, block.frames, with.out)?;
            before.blocks += 1;
            before.bytes = before.bytes.saturating_add(block.bytes);
            if stacks == Stacks::default() {
                before.without_stack += 1;
                before.bytes_without_stack = before.bytes_without_stack.saturating_add(block.bytes);
            }
            self.memory
                .allocate(block.address, block.bytes, At::told(stacks, Nanos(0)), with)?;
        }
        Ok(before)
    }

    /// Blocks or segments that were there before the trace, in the order of their addresses: what its first
    /// entry frees, and what is there at the end and has no entry.
    fn older(
        &self,
        snapshot: &Snapshot<'_>,
        at_end: impl Iterator<Item = Older>,
        (alloc, free): (Action, Action),
    ) -> Result<Vec<Older>, SnapshotError> {
        // By address: bytes that the first entry frees.
        let mut first: FxHashMap<u64, Option<u64>> = FxHashMap::default();
        for entry in self
            .trace
            .into_iter()
            .flat_map(|trace| snapshot.entries(trace))
        {
            let entry = entry?;
            if entry.action == alloc {
                first.entry(entry.address).or_insert(None);
            } else if entry.action == free {
                first.entry(entry.address).or_insert(Some(entry.bytes));
            }
        }
        let mut older: Vec<Older> = at_end
            .filter(|block| !first.contains_key(&block.address))
            .collect();
        older.extend(first.into_iter().filter_map(|(address, bytes)| {
            Some(Older {
                address,
                bytes: bytes?,
                frames: None,
            })
        }));
        older.sort_by_key(|block| block.address);
        older.dedup_by_key(|block| block.address);
        Ok(older)
    }

    /// What was mapped before the trace: the end, with all entries undone from the last on.
    fn mapped_before(&self, snapshot: &Snapshot<'_>) -> Result<Vec<(u64, u64)>, SnapshotError> {
        let mut spans = Spans::default();
        for segment in self.segments.iter().filter(|segment| segment.expandable) {
            let end = segment.address.saturating_add(segment.bytes);
            spans.remove(segment.address, end);
            spans.add(segment.address, end, ());
        }
        for entry in self
            .trace
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

    /// Writes an entry of the trace.
    pub fn entry(
        &mut self,
        entry: &Entry,
        time: Nanos,
        with: &mut With<'_, '_>,
    ) -> Result<(), CaptureError> {
        let Entry { address, bytes, .. } = *entry;
        let end = address.saturating_add(bytes);
        let has_stack = !matches!(entry.action, Action::Snapshot | Action::Other);
        let frames = entry.frames.filter(|_| has_stack);
        let stacks = with.frames.stacks(with.snapshot, frames, with.out)?;
        match entry.action {
            Action::Alloc => {
                if self.memory.live.contains_key(&address) {
                    self.memory.free(address, At::made_up(stacks, time), with)?;
                }
                self.memory
                    .allocate(address, bytes, At::told(stacks, time), with)
            }
            Action::Free => {
                let live = self.memory.live.get(&address).copied();
                if live != Some(bytes) {
                    if live.is_some() {
                        self.memory.free(address, At::made_up(stacks, time), with)?;
                    }
                    self.memory.allocate(
                        address,
                        bytes,
                        At::made_up(Stacks::default(), time),
                        with,
                    )?;
                }
                self.memory.free(address, At::told(stacks, time), with)
            }
            Action::SegmentAlloc => {
                if self.memory.plain.contains_key(&address) {
                    self.memory
                        .segment_free(address, At::made_up(stacks, time), with)?;
                }
                self.memory
                    .segment(address, bytes, At::told(stacks, time), with)
            }
            Action::SegmentFree => {
                if !self.memory.plain.contains_key(&address) {
                    self.memory.segment(
                        address,
                        bytes,
                        At::made_up(Stacks::default(), time),
                        with,
                    )?;
                }
                self.memory
                    .segment_free(address, At::told(stacks, time), with)
            }
            Action::Map => {
                self.memory
                    .unmap(address, end, At::made_up(stacks, time), with)?;
                self.memory.map(address, end, At::told(stacks, time), with)
            }
            Action::Unmap => {
                for (start, end) in self.memory.mapped.gaps(address, end) {
                    self.memory
                        .map(start, end, At::made_up(Stacks::default(), time), with)?;
                }
                self.memory
                    .unmap(address, end, At::told(stacks, time), with)
            }
            Action::OutOfMemory => self.memory.failed(bytes, At::told(stacks, time), with),
            Action::Snapshot | Action::Other => Ok(()),
        }
    }

    /// Brings what is live to what the segments say, after the trace.
    pub fn end(&mut self, time: Nanos, with: &mut With<'_, '_>) -> Result<(), CaptureError> {
        let none = Stacks::default();
        let segments = self.segments.clone();
        let mut blocks: FxHashMap<u64, (u64, Option<ListId>)> = FxHashMap::default();
        for block in segments.iter().flat_map(|segment| &segment.blocks) {
            blocks.insert(block.address, (block.bytes, block.frames));
        }
        let differs = |(address, bytes): (&u64, &u64)| {
            let same = blocks
                .get(address)
                .is_some_and(|(at_end, _)| at_end == bytes);
            (!same).then_some(*address)
        };
        let mut gone: Vec<u64> = self.memory.live.iter().filter_map(differs).collect();
        gone.sort_unstable();
        for address in gone {
            self.memory.free(address, At::made_up(none, time), with)?;
        }
        let mut missing: Vec<_> = blocks.iter().collect();
        missing.sort_unstable_by_key(|(address, _)| **address);
        for (address, (bytes, frames)) in missing {
            if !self.memory.live.contains_key(address) {
                let stacks = with.frames.stacks(with.snapshot, *frames, with.out)?;
                self.memory
                    .allocate(*address, *bytes, At::made_up(stacks, time), with)?;
            }
        }
        let plain = segments.iter().filter(|segment| !segment.expandable);
        let plain: FxHashMap<u64, u64> = plain
            .map(|segment| (segment.address, segment.bytes))
            .collect();
        let differs = |(address, bytes): (&u64, &u64)| {
            (plain.get(address) != Some(bytes)).then_some(*address)
        };
        let mut gone: Vec<u64> = self.memory.plain.iter().filter_map(differs).collect();
        gone.sort_unstable();
        for address in gone {
            self.memory
                .segment_free(address, At::made_up(none, time), with)?;
        }
        let mut missing: Vec<_> = plain.into_iter().collect();
        missing.sort_unstable();
        for (address, bytes) in missing {
            if !self.memory.plain.contains_key(&address) {
                self.memory
                    .segment(address, bytes, At::made_up(none, time), with)?;
            }
        }
        self.end_mapped(time, with)
    }

    fn end_mapped(&mut self, time: Nanos, with: &mut With<'_, '_>) -> Result<(), CaptureError> {
        let none = Stacks::default();
        let mut wanted = Spans::default();
        let segments = self.segments.clone();
        for segment in segments.iter().filter(|segment| segment.expandable) {
            let end = segment.address.saturating_add(segment.bytes);
            wanted.remove(segment.address, end);
            wanted.add(segment.address, end, ());
        }
        let mapped: Vec<_> = self.memory.mapped.iter().collect();
        for (start, end, _) in mapped {
            for (start, end) in wanted.gaps(start, end) {
                self.memory
                    .unmap(start, end, At::made_up(none, time), with)?;
            }
        }
        let wanted: Vec<_> = wanted.iter().collect();
        for (start, end, ()) in wanted {
            for (start, end) in self.memory.mapped.gaps(start, end) {
                self.memory.map(start, end, At::made_up(none, time), with)?;
            }
        }
        Ok(())
    }
}

//! One device of a snapshot: what existed before its trace, and the entries of the trace as events.
//!
//! The segments are correct at the end. The trace can lead to a different state, because entries can be missing. In
//! this case, the missing events are inserted and marked, and the account lists them.

use gpumem_capture::{AllocatorCall, DeviceOrdinal, Nanos};
use rustc_hash::{FxHashMap, FxHashSet};

use super::calls::Calls;
use super::capture::CaptureError;
use super::deferred::Deferred;
use super::entry::{Action, Entry};
use super::error::ImportError;
use super::frames::Stacks;
use super::given_back::GivenBack;
use super::memory::{At, Memory, With};
use super::prior::{self, Before, Older};
use super::snapshot::{Segment, Snapshot, SnapshotError};
use super::spans::Spans;
use crate::pickle::ListId;

/// A device.
pub(super) struct Device<'a> {
    trace: Option<ListId>,
    segments: Vec<&'a Segment>,
    memory: Memory,
    calls: Calls,
    deferred: Deferred,
    given_back: GivenBack,
    /// The index of the next entry in the trace.
    next: u64,
    /// Freed blocks whose release is not yet complete in the trace.
    freed: FxHashSet<u64>,
    before: Before,
    /// The reserved bytes plus the card's free bytes when an allocation failed: the least.
    room: Option<u64>,
}

impl<'a> Device<'a> {
    pub fn new(
        ordinal: u8,
        trace: Option<ListId>,
        segments: Vec<&'a Segment>,
        snapshot: &Snapshot<'_>,
    ) -> Result<Self, SnapshotError> {
        let ordinal = DeviceOrdinal(ordinal);
        let blocks = segments.iter().flat_map(|segment| &segment.blocks);
        let waiting = blocks.filter(|block| block.waits);
        let waiting: FxHashSet<u64> = waiting.map(|block| block.address).collect();
        let entries = trace.into_iter().flat_map(|trace| snapshot.entries(trace));
        Ok(Self {
            trace,
            segments,
            memory: Memory::new(ordinal),
            calls: Calls::new(ordinal),
            deferred: Deferred::of(entries, |address| waiting.contains(&address))?,
            given_back: GivenBack::of(snapshot, trace)?,
            next: 0,
            freed: FxHashSet::default(),
            before: Before::default(),
            room: None,
        })
    }

    pub fn trace(&self) -> Option<ListId> {
        self.trace
    }

    pub fn ordinal(&self) -> u8 {
        self.memory.ordinal.0
    }

    /// What existed before the trace.
    pub fn before(&self) -> &Before {
        &self.before
    }

    pub fn deferred(&self) -> &Deferred {
        &self.deferred
    }

    /// The number of private pools that blocks came from.
    pub fn pools(&self) -> u64 {
        self.calls.pools()
    }

    /// The number and bytes of segments that were freed for unknown reasons.
    pub fn unexplained(&self) -> (u64, u64) {
        self.given_back.unexplained
    }

    /// The reserved bytes plus the card's free bytes when an allocation failed.
    pub fn room(&self) -> Option<u64> {
        self.room
    }

    /// Writes what existed before the trace.
    pub fn begin(&mut self, with: &mut With<'_, '_>) -> Result<(), ImportError> {
        let snapshot = with.snapshot;
        let segments = self.segments.clone();
        for segment in prior::segments(snapshot, self.trace, &segments)? {
            let stacks = with.frames.stacks(snapshot, segment.frames, with.out)?;
            let at = At::told(stacks, Nanos(0));
            self.memory
                .segment(segment.address, segment.bytes, at, with)?;
        }
        for (start, end) in prior::mapped(snapshot, self.trace, &segments)? {
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
        self.before.reserved = self.memory.reserved;
        for block in prior::blocks(snapshot, self.trace, &segments)? {
            self.older(&block, with)?;
        }
        Ok(())
    }

    fn older(&mut self, block: &Older, with: &mut With<'_, '_>) -> Result<(), CaptureError> {
        let stacks = with.frames.stacks(with.snapshot, block.frames, with.out)?;
        let placement = self.calls.placement(block.stream, block.pool, with)?;
        let at = At::told(stacks, Nanos(0));
        self.calls.enter(block.pool, at, &self.memory, with)?;
        let (address, bytes) = (block.address, block.bytes);
        let of_block = at.from(placement).asked(block.is_exact);
        self.memory.allocate(address, bytes, of_block, with)?;
        let before = &mut self.before;
        before.blocks += 1;
        before.bytes = before.bytes.saturating_add(bytes);
        if stacks == Stacks::default() {
            before.without_stack += 1;
            before.bytes_without_stack = before.bytes_without_stack.saturating_add(bytes);
        }
        Ok(())
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
        let (at, number) = (At::told(stacks, time), self.next);
        self.next += 1;
        for call in self.given_back.calls(number) {
            self.calls.given_back(call, at, &self.memory, with)?;
        }
        match entry.action {
            Action::Alloc => {
                if self.memory.live.contains_key(&address) {
                    self.memory.free(address, At::made_up(stacks, time), with)?;
                }
                self.freed.remove(&address);
                let placement = self.calls.placement(entry.stream, entry.pool, with)?;
                self.calls.enter(entry.pool, at, &self.memory, with)?;
                self.memory
                    .allocate(address, bytes, at.from(placement), with)
            }
            Action::FreeCompleted if self.freed.remove(&address) => {
                match self.deferred.is_completed(number) {
                    true => self.memory.call(AllocatorCall::RELEASED, address, at, with),
                    false => Ok(()),
                }
            }
            Action::FreeRequested | Action::FreeCompleted => {
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
                if entry.action == Action::FreeRequested {
                    self.freed.insert(address);
                }
                self.calls.freed(entry.pool, at, &self.memory, with)?;
                if let Some(stream) = self.deferred.stream(number) {
                    self.calls
                        .used_on(stream, address, at, &self.memory, with)?;
                }
                self.memory.free(address, at, with)
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
            Action::OutOfMemory => {
                // Otherwise the card had enough free memory, and something else caused the failure, such as a memory
                // fraction.
                if address < bytes {
                    let room = address.saturating_add(self.memory.reserved);
                    self.room = Some(self.room.map_or(room, |least| least.min(room)));
                }
                let placement = self.calls.placement(entry.stream, entry.pool, with)?;
                self.calls.enter(entry.pool, at, &self.memory, with)?;
                self.memory.failed(bytes, at.from(placement), with)
            }
            Action::Snapshot | Action::Other => Ok(()),
        }
    }

    /// After the trace, frees and allocates what differs from the segments.
    pub fn end(&mut self, time: Nanos, with: &mut With<'_, '_>) -> Result<(), CaptureError> {
        let none = Stacks::default();
        let segments = self.segments.clone();
        let mut blocks: FxHashMap<u64, (u64, Option<ListId>)> = FxHashMap::default();
        let mut waiting = FxHashSet::default();
        for block in segments.iter().flat_map(|segment| &segment.blocks) {
            if block.waits {
                waiting.insert(block.address);
            } else {
                blocks.insert(block.address, (block.bytes, block.frames));
            }
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
            let at = match waiting.contains(&address) {
                true => At::told(none, time),
                false => At::made_up(none, time),
            };
            self.memory.free(address, at, with)?;
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

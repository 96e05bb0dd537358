//! The memory of a device of a snapshot, as far as it has been written. Each change is an event.

use gpumem_capture::{
    AllocatorCall, ApiId, DeviceOrdinal, Event, EventFlags, EventKind, Level, Nanos, PlacementId,
};
use rustc_hash::FxHashMap;

use super::capture::{CaptureError, Out};
use super::frames::{Frames, Stacks};
use super::snapshot::Snapshot;
use super::spans::Spans;

/// The name of PyTorch's own reports as a function.
pub(super) const PYTORCH: ApiId = ApiId(1);

/// A range of an expandable segment, as a VMM handle.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mapped {
    handle: u64,
    stacks: Stacks,
}

/// The stacks and time of an event, and whether it was inserted without an entry of the trace.
#[derive(Clone, Copy, Debug)]
pub(super) struct At {
    pub stacks: Stacks,
    pub time: Nanos,
    /// Tensors: the stream and pool of the block, and whether its requested bytes are known.
    placement: PlacementId,
    slack: u32,
    made_up: bool,
}

impl At {
    /// From an entry or a segment.
    pub fn told(stacks: Stacks, time: Nanos) -> Self {
        Self {
            stacks,
            time,
            placement: PlacementId::UNKNOWN,
            slack: 0,
            made_up: false,
        }
    }

    /// The same, with the stream and pool of the block.
    pub fn from(self, placement: PlacementId) -> Self {
        Self { placement, ..self }
    }

    /// The same for a block; its requested bytes are unknown unless `is_exact`.
    pub fn asked(self, is_exact: bool) -> Self {
        let slack = if is_exact { 0 } else { Event::SLACK_UNKNOWN };
        Self { slack, ..self }
    }

    /// Inserted, because an entry is missing.
    pub fn made_up(stacks: Stacks, time: Nanos) -> Self {
        Self {
            made_up: true,
            ..Self::told(stacks, time)
        }
    }

    /// The flags of an event: inserted events are marked as a mismatch with PyTorch's figures.
    fn marked(self, flags: EventFlags) -> EventFlags {
        match self.made_up {
            true => flags.with(EventFlags::MISMATCH),
            false => flags,
        }
    }
}

/// The context of writing.
pub(super) struct With<'a, 's> {
    pub snapshot: &'a Snapshot<'s>,
    pub out: &'a mut Out,
    pub frames: &'a mut Frames,
}

/// Live blocks and mappings.
pub(super) struct Memory {
    pub ordinal: DeviceOrdinal,
    /// Blocks in use: bytes by address.
    pub live: FxHashMap<u64, u64>,
    live_bytes: u64,
    /// Segments of one size: bytes by address.
    pub plain: FxHashMap<u64, u64>,
    pub mapped: Spans<Mapped>,
    handles: u64,
    /// Reserved bytes.
    pub reserved: u64,
}

impl Memory {
    pub fn new(ordinal: DeviceOrdinal) -> Self {
        Self {
            ordinal,
            live: FxHashMap::default(),
            live_bytes: 0,
            plain: FxHashMap::default(),
            mapped: Spans::default(),
            handles: 0,
            reserved: 0,
        }
    }

    /// An event of a tensor.
    fn tensor(&self, at: At) -> Event {
        Event {
            time: at.time,
            aux: self.reserved,
            py_stack: at.stacks.py,
            native_stack: at.stacks.native,
            level: Level::TENSOR,
            device: self.ordinal,
            api: PYTORCH,
            flags: at.marked(EventFlags::NONE),
            ..Event::default()
        }
    }

    fn driver(&self, at: At) -> Event {
        Event {
            level: Level::DRIVER,
            aux: 0,
            api: ApiId(0),
            ..self.tensor(at)
        }
    }

    /// Writes a failed allocation of a tensor.
    pub fn failed(&self, bytes: u64, at: At, with: &mut With<'_, '_>) -> Result<(), CaptureError> {
        with.out.event(&Event {
            kind: EventKind::OUT_OF_MEMORY,
            ptr: self.live_bytes,
            bytes,
            aux: self.reserved,
            placement: at.placement,
            ..self.tensor(at)
        })
    }

    pub fn allocate(
        &mut self,
        address: u64,
        bytes: u64,
        at: At,
        with: &mut With<'_, '_>,
    ) -> Result<(), CaptureError> {
        self.live.insert(address, bytes);
        self.live_bytes = self.live_bytes.wrapping_add(bytes);
        with.out.event(&Event {
            kind: EventKind::ALLOC,
            ptr: address,
            bytes,
            placement: at.placement,
            slack: at.slack,
            ..self.tensor(at)
        })
    }

    /// Writes a call of the allocator, or its effect.
    pub fn call(
        &self,
        call: AllocatorCall,
        address: u64,
        at: At,
        with: &mut With<'_, '_>,
    ) -> Result<(), CaptureError> {
        with.out.event(&Event {
            kind: EventKind::ALLOCATOR,
            ptr: address,
            aux: call.0,
            placement: at.placement,
            api: ApiId(0),
            ..self.tensor(at)
        })
    }

    pub fn free(
        &mut self,
        address: u64,
        at: At,
        with: &mut With<'_, '_>,
    ) -> Result<(), CaptureError> {
        let bytes = self.live.remove(&address).unwrap_or(0);
        self.live_bytes = self.live_bytes.wrapping_sub(bytes);
        with.out.event(&Event {
            kind: EventKind::FREE,
            ptr: address,
            bytes,
            ..self.tensor(at)
        })
    }

    pub fn segment(
        &mut self,
        address: u64,
        bytes: u64,
        at: At,
        with: &mut With<'_, '_>,
    ) -> Result<(), CaptureError> {
        self.plain.insert(address, bytes);
        self.reserved = self.reserved.wrapping_add(bytes);
        with.out.event(&Event {
            kind: EventKind::ALLOC,
            ptr: address,
            bytes,
            aux: with.frames.allocator(),
            ..self.driver(at)
        })
    }

    pub fn segment_free(
        &mut self,
        address: u64,
        at: At,
        with: &mut With<'_, '_>,
    ) -> Result<(), CaptureError> {
        let bytes = self.plain.remove(&address).unwrap_or(0);
        self.reserved = self.reserved.wrapping_sub(bytes);
        with.out.event(&Event {
            kind: EventKind::FREE,
            ptr: address,
            bytes,
            ..self.driver(at)
        })
    }

    pub fn map(
        &mut self,
        start: u64,
        end: u64,
        at: At,
        with: &mut With<'_, '_>,
    ) -> Result<(), CaptureError> {
        let bytes = end.saturating_sub(start);
        if bytes == 0 {
            return Ok(());
        }
        self.handles += 1;
        let handle = self.handles;
        self.mapped.add(
            start,
            end,
            Mapped {
                handle,
                stacks: at.stacks,
            },
        );
        self.reserved = self.reserved.wrapping_add(bytes);
        let event = self.driver(at);
        with.out.event(&Event {
            kind: EventKind::ALLOC,
            ptr: handle,
            bytes,
            aux: with.frames.allocator(),
            flags: at.marked(EventFlags::VMM_HANDLE),
            ..event
        })?;
        with.out.event(&Event {
            kind: EventKind::MAP,
            ptr: start,
            bytes,
            aux: handle,
            flags: EventFlags::NONE,
            ..event
        })
    }

    /// Unmaps a range. A handle that it covers in part is freed, and the remaining parts are created as new handles.
    pub fn unmap(
        &mut self,
        start: u64,
        end: u64,
        at: At,
        with: &mut With<'_, '_>,
    ) -> Result<(), CaptureError> {
        for (from, until, Mapped { handle, stacks: by }) in self.mapped.remove(start, end) {
            let bytes = until - from;
            self.reserved = self.reserved.wrapping_sub(bytes);
            let event = self.driver(at);
            with.out.event(&Event {
                kind: EventKind::UNMAP,
                ptr: from,
                bytes,
                flags: EventFlags::NONE,
                ..event
            })?;
            with.out.event(&Event {
                kind: EventKind::FREE,
                ptr: handle,
                bytes,
                flags: at.marked(EventFlags::VMM_HANDLE),
                ..event
            })?;
            for (from, until) in [(from, start.min(until)), (end.max(from), until)] {
                self.mapped.remove(from, until);
                self.map(from, until, At::told(by, at.time), with)?;
            }
        }
        Ok(())
    }
}

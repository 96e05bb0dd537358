//! A device's figures now and at its peak.

use gpumem_capture::{Event, EventKind, Level, Nanos, Seq, StackId};

use crate::attribution::PYTORCH_ALLOCATOR;
use crate::backing::Backing;
use crate::block::Block;
use crate::high_water::Clock;
use crate::ids::KeyId;
use crate::readings::Readings;
use crate::serialize::serialize;
use crate::span_context::SpanContext;

/// The figures of a device at one point in time, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Levels {
    /// Live tensors.
    pub tensor: u64,
    /// Device memory from CUDA.
    pub driver: u64,
    /// Pinned host memory.
    pub host: u64,
    /// What the framework held from the driver, as of its newest event, less what it freed since; `None` before the
    /// first event.
    pub reserved: Option<u64>,
    /// Managed memory, wherever it resides; a part of `driver`.
    pub managed: u64,
    /// Physical memory.
    pub physical: u64,
}

/// A device over time: its figures now and at its peak.
///
/// The peak is the point in time at which tensors held most. The driver level is not used, because a framework's pool
/// keeps its memory: that level goes on rising slowly after the peak, and does not show which code needed the memory.
/// Among equal points, the one with the highest driver level is the peak, then the one with the highest physical level,
/// then the first. Without tensors, it is the driver level's peak.
#[derive(Clone, Debug, Default)]
pub struct DevicePeak {
    /// Now.
    pub now: Levels,
    /// At the peak.
    pub at_peak: Levels,
    /// The event of the peak, and its time; `None` if the device never held anything.
    pub moment: Option<(Seq, Nanos)>,
    /// The span context then.
    pub span_context: SpanContext,
    /// The highest reserved figure seen.
    pub reserved_peak: u64,
    /// NVML's readings.
    pub readings: Readings,
    pub(crate) clock: Clock,
    /// The stacks of the newest event that has any.
    pub(crate) nearest: Option<KeyId>,
}

serialize! {
    Levels { tensor, driver, host, reserved, managed, physical }
    DevicePeak { now, at_peak, moment, span_context, reserved_peak, readings, clock, nearest }
}

impl DevicePeak {
    /// The driver gets a block back that a library had taken. PyTorch reports its reserved bytes with each tensor
    /// event, and may empty its cache between two of them.
    pub(crate) fn gives_back(&mut self, block: Block, library: impl FnOnce() -> Option<String>) {
        let may_be_cut = matches!(Backing::of(block.flags), Backing::Pages | Backing::Handle);
        if let Some(reserved) = self.now.reserved.as_mut().filter(|_| may_be_cut)
            && library().as_deref() == Some(PYTORCH_ALLOCATOR)
        {
            *reserved = reserved.saturating_sub(block.bytes);
        }
    }

    /// Calls `change` for each stack that it refers to.
    pub(crate) fn each_key(&mut self, change: &mut dyn FnMut(&mut KeyId)) {
        if let Some(key) = &mut self.nearest {
            change(key);
        }
        for key in self
            .readings
            .jumps
            .iter_mut()
            .filter_map(|jump| jump.key.as_mut())
        {
            change(key);
        }
    }

    /// Takes in an event after the levels in `now` were updated; returns whether it is a new peak.
    pub(crate) fn update(&mut self, seq: Seq, event: &Event, key: KeyId, counts: bool) -> bool {
        match event.kind {
            EventKind::ALLOC | EventKind::FREE if event.level == Level::TENSOR => {
                self.now.reserved = Some(event.aux);
                self.reserved_peak = self.reserved_peak.max(event.aux);
            }
            EventKind::SAMPLE => {
                self.readings
                    .sample(seq, event, self.now.managed, self.nearest);
            }
            EventKind::CARD => self.readings.card(event),
            _ => {}
        }
        let reading = matches!(event.kind, EventKind::SAMPLE | EventKind::CARD);
        if !reading && (event.py_stack, event.native_stack) != (StackId::NONE, StackId::NONE) {
            self.nearest = Some(key);
        }
        let peak = self.now.rank() > self.at_peak.rank() && counts;
        if peak {
            self.at_peak = self.now;
            self.moment = Some((seq, event.time));
            self.clock.tick();
        }
        peak
    }
}

impl Levels {
    /// The order of points in time: the greatest is the peak.
    pub fn rank(&self) -> (u64, u64, u64) {
        (self.tensor, self.driver, self.physical)
    }
}

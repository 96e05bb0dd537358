//! The moment at which a device held most.

use gpumem_capture::{Event, EventKind, Level, Nanos, Seq, StackId};

use crate::attribution::PYTORCH_ALLOCATOR;
use crate::backing::Backing;
use crate::block::Block;
use crate::high_water::Clock;
use crate::ids::KeyId;
use crate::readings::Readings;
use crate::serialize::serialize;
use crate::span_context::SpanContext;

/// The figures of a device at one moment, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Levels {
    /// Tensors live.
    pub tensor: u64,
    /// Device memory from CUDA.
    pub driver: u64,
    /// Pinned host memory.
    pub host: u64,
    /// What the framework held from the driver, as its newest event said, less what it gave back since; `None` before the
    /// first.
    pub reserved: Option<u64>,
    /// Managed memory, wherever it resides; a part of `driver`.
    pub managed: u64,
    /// What the card gave.
    pub physical: u64,
}

/// A device over time: what it holds now, and held at its peak.
///
/// The peak is the moment at which tensors held most: a framework's pool keeps what it once had, so the
/// driver level goes on rising by a little long after the moment that made it large, and says nothing
/// of who needed the memory. Of equal moments the one at which the driver level was greatest is taken,
/// then the one at which the physical level was, and the first of those. Where there are no tensors, it
/// is the driver level's peak.
#[derive(Clone, Debug, Default)]
pub struct DevicePeak {
    /// Now.
    pub now: Levels,
    /// At the peak.
    pub at_peak: Levels,
    /// The event of the peak, and when; `None` if the device never held anything.
    pub moment: Option<(Seq, Nanos)>,
    /// What the program was at then.
    pub span_context: SpanContext,
    /// The greatest reserved figure seen.
    pub reserved_peak: u64,
    /// What NVML said.
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
    /// The driver has a block back that a library took. PyTorch says what it holds with each tensor, and may empty its
    /// cache between two.
    pub(crate) fn gives_back(&mut self, block: Block, library: impl FnOnce() -> Option<String>) {
        let may_be_cut = matches!(Backing::of(block.flags), Backing::Pages | Backing::Handle);
        if let Some(reserved) = self.now.reserved.as_mut().filter(|_| may_be_cut)
            && library().as_deref() == Some(PYTORCH_ALLOCATOR)
        {
            *reserved = reserved.saturating_sub(block.bytes);
        }
    }

    /// The stacks that it names, to be changed.
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

    /// Takes in an event after the levels in `now` were brought up to date; says whether it is a new
    /// peak.
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
    /// What makes one moment a greater one than another.
    pub fn rank(&self) -> (u64, u64, u64) {
        (self.tensor, self.driver, self.physical)
    }
}

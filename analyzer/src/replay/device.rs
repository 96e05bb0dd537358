//! The moment at which a device held most.

use gpumem_capture::{Event, EventKind, Level, Nanos, Seq};

use super::tally::Clock;

/// The figures of a device at one moment, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Levels {
    /// Tensors live.
    pub tensor: u64,
    /// Device memory from CUDA.
    pub driver: u64,
    /// Pinned host memory.
    pub host: u64,
    /// What the framework held from the driver, as its own events say; `None` before the first.
    pub reserved: Option<u64>,
    /// What the live contexts cost, as far as it is known.
    pub contexts: u64,
}

/// A device over time: what it holds now, and held at its peak.
///
/// The peak is the moment at which tensors held most: a framework's pool keeps what it once had, so the
/// driver level goes on rising by a little long after the moment that made it large, and says nothing
/// of who needed the memory. Of equal moments the one at which the driver level was greatest is taken,
/// and the first of those. Where there are no tensors, it is the driver level's peak.
#[derive(Clone, Debug, Default)]
pub struct DevicePeak {
    /// Now.
    pub now: Levels,
    /// At the peak.
    pub at_peak: Levels,
    /// The event of the peak, and when; `None` if the device never held anything.
    pub moment: Option<(Seq, Nanos)>,
    /// The greatest reserved figure seen.
    pub reserved_peak: u64,
    pub(super) clock: Clock,
    contexts: Vec<(u64, u64)>,
}

impl DevicePeak {
    /// Takes in an event after the levels in `now` were brought up to date.
    pub(super) fn update(&mut self, seq: Seq, event: &Event, tallied: bool) {
        match event.kind {
            EventKind::ALLOC | EventKind::FREE if event.level == Level::TENSOR => {
                self.now.reserved = Some(event.aux);
                self.reserved_peak = self.reserved_peak.max(event.aux);
            }
            EventKind::CONTEXT => {
                self.contexts.push((event.ptr, event.bytes));
                self.sum_contexts();
            }
            EventKind::CONTEXT_END => {
                self.contexts.retain(|(handle, _)| *handle != event.ptr);
                self.sum_contexts();
            }
            _ => {}
        }
        let better =
            (self.now.tensor, self.now.driver) > (self.at_peak.tensor, self.at_peak.driver);
        if better && tallied {
            self.at_peak = self.now;
            self.moment = Some((seq, event.time));
            self.clock.tick();
        }
    }

    fn sum_contexts(&mut self) {
        self.now.contexts = self.contexts.iter().map(|(_, bytes)| bytes).sum();
    }
}

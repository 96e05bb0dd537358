//! How to open a capture.

use std::path::PathBuf;
use std::time::Duration;

use crate::bounded_layout::BoundedLayout;
use crate::layout::RING_SLOTS;

/// How to open a capture.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Slots of the ring, 64 bytes each: a power of two from 64 to 2^24. Default 65,536 (4 MiB).
    pub ring_slots: u32,
    /// Maximum delay of the recorded program when the ring is full and the drain is blocked in a call that writes
    /// to the file, before events are counted as lost. Ten times as long if the drain does not get a processor.
    /// Once per stall. Default 100 ms.
    pub stall: Duration,
    /// Where the ring is kept. Default: in the capture.
    pub ring: RingPlace,
    /// Maximum number of bytes that wait to be written to the file, unless the ring is in the capture. Default 64
    /// MiB.
    pub queue_bytes: usize,
    /// The fixed maximum size of the file in bytes; `None`: it grows. Default: none.
    pub bounded: Option<u64>,
    /// The source of the records, if it is not this process. Default: this process.
    pub origin: Option<Origin>,
}

/// Where the ring is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum RingPlace {
    /// In the capture itself, before its pages. SIGKILL loses nothing, and the capture needs no other file. But a
    /// call then waits for the capture's disk if the disk is too slow for the data.
    #[default]
    InCapture,
    /// In a file in the first of these folders that is in memory (tmpfs); a memfd if there is no such folder.
    Folders(Vec<PathBuf>),
    /// In unnamed memory. Data that was not yet written to the capture is lost with the process.
    Memfd,
    /// In this process's own memory: for records of another process.
    Private,
}

/// The source of records that another tool has recorded. Process, host and the system's clocks are then unknown:
/// zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The wall clock at time 0, ns since 1970-01-01 UTC; 0: not known.
    pub started_wall_ns: u64,
    /// Replaces the random number that identifies captures: different for different records.
    pub nonce: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            ring_slots: 65_536,
            stall: Duration::from_millis(100),
            ring: RingPlace::default(),
            queue_bytes: 64 << 20,
            bounded: None,
            origin: None,
        }
    }
}

impl Options {
    /// The same with a ring of `slots` slots, rounded up to a valid number.
    pub fn ring_slots(mut self, slots: u32) -> Self {
        let (least, most) = (*RING_SLOTS.start(), *RING_SLOTS.end());
        self.ring_slots = slots.clamp(least, most).next_power_of_two();
        self
    }

    /// The same with another maximum delay.
    pub fn stall(mut self, stall: Duration) -> Self {
        self.stall = stall;
        self
    }

    /// The same with the ring at another place.
    pub fn ring(mut self, ring: RingPlace) -> Self {
        self.ring = ring;
        self
    }

    /// The same with another limit for bytes that wait to be written.
    pub fn queue_bytes(mut self, bytes: usize) -> Self {
        self.queue_bytes = bytes;
        self
    }

    /// The same for a file with a fixed size of at most `bytes`: see [`super::Writer::drain_bounded`].
    pub fn bounded(mut self, bytes: Option<u64>) -> Self {
        self.bounded = bytes;
        self
    }

    /// The same for records that this process did not create. Equal records then give equal bytes, if
    /// [`super::Writer::finish_at`] ends the capture.
    pub fn origin(mut self, origin: Origin) -> Self {
        self.origin = Some(origin);
        self
    }

    /// The minimum size of a bounded capture with this ring, in bytes.
    pub fn least_bounded(&self) -> u64 {
        BoundedLayout::least_file(self.ring_slots)
    }
}

//! What the reader says of a capture beside its records.

use crate::{CounterValues, DefKind, Definition, DeviceOrdinal, Event, Level, Nanos, Seq};

/// What is known of a capture before reading its records.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Header {
    /// Version of the format.
    pub version: u32,
    /// Random number of this capture.
    pub nonce: u64,
    /// Process that was recorded.
    pub pid: u32,
    /// Its parent.
    pub parent_pid: u32,
    /// When the process started, in clock ticks since boot (/proc/<pid>/stat); 0 if unknown.
    pub process_start_ticks: u64,
    /// Wall clock when the capture was opened: ns since 1970-01-01 UTC.
    pub started_wall_ns: u64,
    /// CLOCK_MONOTONIC then: an event's time plus this is that clock's reading.
    pub started_monotonic_ns: u64,
    /// CLOCK_BOOTTIME then.
    pub started_boottime_ns: u64,
    /// Boot id of the host (a UUID's 16 bytes); zeros if unknown.
    pub boot_id: [u8; 16],
    /// Slots of the ring.
    pub ring_slots: u32,
    /// Whether a process of another container, whose number means nothing here, had the ring mapped when the capture was
    /// opened.
    pub ring_in_use_elsewhere: bool,
    /// When the process ended cleanly, if it did.
    pub ended: Option<Nanos>,
}

impl Header {
    /// Whether the process ran on this host since it was last started. False where nothing tells.
    pub fn is_of_this_boot(&self) -> bool {
        self.boot_id != [0; 16] && self.boot_id == crate::procfs::boot_id()
    }

    /// Whether the recorded process is still there, on this host and in this boot. False also where
    /// neither /proc nor its ring tells.
    pub fn is_running(&self) -> bool {
        self.is_of_this_boot()
            && (self.ring_in_use_elsewhere
                || crate::procfs::is_running(self.pid, self.process_start_ticks))
    }
}

/// A record as the reader gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// Of a bounded capture, first of all: the state that stands for all records before this seq, as
    /// its writer's [`crate::StateSink`] wrote it.
    State(Seq, &'a [u8]),
    /// Something happened.
    Event(Seq, &'a Event),
    /// Something is named.
    Definition(Seq, &'a Definition),
}

/// A time during which events were lost because the ring was full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LossRange {
    /// Time of the first lost event.
    pub first: Nanos,
    /// Time of the last.
    pub last: Nanos,
    /// How many were lost.
    pub events: u64,
}

/// Something in the file that is not as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Where in the file.
    pub offset: u64,
    /// What is wrong, for people.
    pub what: String,
    /// The first record that is missing because of it; None if no record is.
    pub first_missing: Option<Seq>,
    /// The first record after it that was read again; None if none was.
    pub next_good: Option<Seq>,
}

/// The counters of all devices and levels that were ever used, as of one place in the order of records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// They count what came before this record; None: they were never written, or the process died while it wrote
    /// them.
    pub of: Option<Seq>,
    /// The figures. Rows that are damaged are left out.
    pub rows: Vec<(DeviceOrdinal, Level, CounterValues)>,
}

/// What a bounded capture still has of its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounded {
    /// Bytes of the file.
    pub bytes: u64,
    /// The first record that was given as itself: a state stands for those before it.
    pub from: Seq,
}

/// How whole a capture is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Integrity {
    /// Events read, those that a state stands for included.
    pub events: u64,
    /// Definitions read, likewise.
    pub definitions: u64,
    /// Pages read.
    pub pages: u64,
    /// If the capture is bounded: what it still has.
    pub bounded: Option<Bounded>,
    /// Places whose functions' names are embedded behind the capture.
    pub symbols: u64,
    /// Events that the recorder had to drop (the ring was full): counted, but not in the file.
    pub events_lost: u64,
    /// Definitions that the recorder had to refuse; it may have recorded them later.
    pub definitions_lost: u64,
    /// When events were lost. If a program has more than 64 such times, the last range spans the rest.
    pub loss_ranges: Vec<LossRange>,
    /// What is damaged.
    pub damage: Vec<Damage>,
    /// Records that were begun and never committed: the process died, or still is, inside a hook. The
    /// hook had not returned.
    pub in_flight: u64,
    /// Whether the process ended in an orderly way.
    pub clean_exit: bool,
    /// Why the drain could not write, if it could not. What then no longer fitted into the ring is in
    /// `events_lost`.
    pub drain_error: Option<String>,
    /// What became of a ring that is not in the capture.
    pub ring: RingState,
}

/// What became of the ring of a capture that does not hold it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum RingState {
    /// Nothing is missing for want of it: the capture holds its ring, or was closed, or the ring was merged into it.
    #[default]
    NotNeeded,
    /// It was read.
    Read,
    /// It is gone: what happened after this time is not known.
    Gone(Nanos),
    /// A file is there in its place that is not it: why, and the time after which nothing is known.
    Refused(String, Nanos),
}

impl Integrity {
    /// Whether every event that a hook recorded is there: no damage and no lost events.
    pub fn is_whole(&self) -> bool {
        self.damage.is_empty() && self.events_lost == 0
    }

    pub(crate) fn damaged(&mut self, offset: u64, what: impl Into<String>) {
        let what = what.into();
        self.damage.push(Damage {
            offset,
            what,
            first_missing: None,
            next_good: None,
        });
    }
}

/// Reads a definition's payload; one that cannot be read as its kind says is given as unknown.
pub(crate) fn definition(kind: DefKind, payload: &[u8]) -> (Definition, bool) {
    match Definition::from_payload(kind, payload) {
        Some(definition) => (definition, true),
        None => (
            Definition::Unknown {
                kind,
                payload: payload.to_vec(),
            },
            false,
        ),
    }
}

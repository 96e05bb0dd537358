//! The reader's results except records: the header, damage, and what is missing.

use crate::{CounterValues, DefKind, Definition, DeviceOrdinal, Event, Level, Nanos, Seq};

/// The facts about a capture before its records are read.
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
    /// Whether a process of another container, whose process id has no meaning here, had the ring mapped when the
    /// capture was opened.
    pub ring_in_use_elsewhere: bool,
    /// Whether the process has closed the capture, or replaced its program.
    pub is_left: bool,
    /// When the process ended cleanly, if it did.
    pub ended: Option<Nanos>,
    /// The file's owner.
    pub owner: u32,
}

impl Header {
    /// Whether the process ran on this host in its current boot. False if that is unknown.
    pub fn is_of_this_boot(&self) -> bool {
        self.boot_id != [0; 16] && self.boot_id == crate::procfs::boot_id()
    }

    /// Whether the capture's file belongs to the user of this process.
    pub fn is_of_this_user(&self) -> bool {
        self.owner == crate::procfs::effective_user()
    }

    /// Whether the recorded process still exists as the same program, on this host and in this boot. False also if
    /// neither /proc nor its ring shows it.
    pub fn is_running(&self) -> bool {
        self.is_of_this_boot()
            && !self.is_left
            && (self.ring_in_use_elsewhere
                || crate::procfs::is_running(self.pid, self.process_start_ticks))
    }
}

/// A record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// The first record of a bounded capture: the state that replaces all records before this seq, as written by its
    /// writer's [`crate::StateSink`].
    State(Seq, &'a [u8]),
    /// An event.
    Event(Seq, &'a Event),
    /// A definition.
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

/// A damaged part of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The offset in the file.
    pub offset: u64,
    /// Description of the damage.
    pub what: String,
    /// The first record that is missing because of it; None if no record is.
    pub first_missing: Option<Seq>,
    /// The first record after it that was read again; None if none was.
    pub next_good: Option<Seq>,
}

/// The counters of all devices and levels that were ever used, at one position in the order of records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// They cover the records before this one. None if they were never written, or the process died while writing them.
    pub of: Option<Seq>,
    /// The figures, without damaged rows.
    pub rows: Vec<(DeviceOrdinal, Level, CounterValues)>,
}

/// The records that a bounded capture still has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounded {
    /// Bytes of the file.
    pub bytes: u64,
    /// The first record that is passed on itself: a state replaces those before it.
    pub from: Seq,
}

/// How complete a capture is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Integrity {
    /// Events read, including those that a state replaces.
    pub events: u64,
    /// Definitions read, including those that a state replaces.
    pub definitions: u64,
    /// Pages read.
    pub pages: u64,
    /// For a bounded capture: the records that it still has.
    pub bounded: Option<Bounded>,
    /// Addresses whose functions' names are embedded after the capture.
    pub symbols: u64,
    /// Events that the recorder had to drop (the ring was full): counted, but not in the file.
    pub events_lost: u64,
    /// Definitions that the recorder had to refuse; it may have recorded them later.
    pub definitions_lost: u64,
    /// When events were lost. If a program has more than 64 such times, the last range spans the rest.
    pub loss_ranges: Vec<LossRange>,
    /// What is damaged.
    pub damage: Vec<Damage>,
    /// Records that were started and never committed: the process died, or still is, inside a hook. The hook had not
    /// returned.
    pub in_flight: u64,
    /// Whether the process exited normally.
    pub clean_exit: bool,
    /// Why the drain could not write, if it could not. Events that then did not fit into the ring are in `events_lost`.
    pub drain_error: Option<String>,
    /// The state of a ring that is not in the capture.
    pub ring: RingState,
}

/// The state of the ring of a capture that does not hold it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum RingState {
    /// It is not needed: the capture holds its ring, or was closed, or the ring was merged into it.
    #[default]
    NotNeeded,
    /// It was read.
    Read,
    /// It no longer exists: events after this time are unknown.
    Gone(Nanos),
    /// The file at its path is not this ring: the reason, and the time after which events are unknown.
    Refused(String, Nanos),
}

impl Integrity {
    /// Whether every event that a hook recorded is present: no damage and no lost events.
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

/// Reads a definition's payload; one that is invalid for its kind is returned as unknown.
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

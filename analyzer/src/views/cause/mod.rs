//! Why an allocation failed, judged once for all outputs.
//!
//! The causes are checked in this order, each with its evidence: causes that are independent of this program's memory
//! (the request exceeds the card, or other processes hold the memory), growth, the largest part, and fragmentation.
//! Growth is detected in the rounds of loops ([`course`]). Fragmentation is reported only if the request would have
//! fitted into the free bytes as one block.

mod course;
pub(super) mod graph;
mod judge;
mod kind;
pub(super) mod places;
mod series;
mod words;

use std::cmp::Reverse;
use std::path::Path;

use gpumem_capture::{Level, Progress, Reader, Record};
use schemars::JsonSchema;
use serde::Serialize;

use super::by_stack::{ByStack, Select};
use super::categories::CategoryBytes;
use super::lines::{LineRow, Lines};
use crate::replay::{At, Effect, OutOfMemory, Replay};
use crate::session::{Error, Session};
use course::Course;

pub use kind::CauseKind;

/// The maximum number of owners in the list.
const OWNERS: usize = 3;

/// A line with its live memory at a point in time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Holder {
    /// The owner as tables show it: `train.py:97`, or a description in parentheses such as `(no stack)`.
    pub line: String,
    /// The function that contains the line; empty if no Python line owns the memory.
    pub function: String,
    /// Live bytes of the line at the point in time.
    pub bytes: u64,
    /// Number of live blocks of the line at the point in time.
    pub blocks: u64,
    /// These bytes by category, the largest first. Absent at levels other than `tensor`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub categories: Vec<CategoryBytes>,
}

impl Holder {
    /// The lines with the most live bytes, the largest first, and the live bytes of all lines.
    pub fn most(replay: &Replay, held: &ByStack) -> (Vec<Self>, u64) {
        let lines = Lines::of(replay, held);
        let live = lines.bytes();
        let mut owners: Vec<Self> = Vec::new();
        for row in lines.rows {
            // A line may have a row for each phase.
            let line = row.owner.label(&replay.names);
            match owners.iter_mut().find(|of| of.line == line) {
                Some(of) => of.add(row),
                None => owners.push(Self::of(line, row)),
            }
        }
        owners.sort_by_key(|of| Reverse((of.bytes, of.blocks)));
        owners.truncate(OWNERS);
        (owners, live)
    }

    fn of(line: String, row: LineRow) -> Self {
        Self {
            line,
            function: row.owner.function().to_owned(),
            bytes: row.bytes,
            blocks: row.blocks,
            categories: row.categories,
        }
    }

    /// Adds another row of the line.
    fn add(&mut self, row: LineRow) {
        (self.bytes, self.blocks) = (self.bytes + row.bytes, self.blocks + row.blocks);
        for more in row.categories {
            let mut had = self.categories.iter_mut();
            match had.find(|of| of.category == more.category) {
                Some(of) => of.bytes += more.bytes,
                None => self.categories.push(more),
            }
        }
        self.categories
            .sort_by_key(|of| (Reverse(of.bytes), of.category));
    }
}

/// The cause of one failed allocation, with the figures that show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Cause {
    /// Number of the failure in the capture, from 1.
    pub number: u64,
    /// Number of the failure's event. "At the failure" is just after this event.
    pub event: u64,
    /// Ordinal of the GPU of the request; 255: no GPU.
    pub device: u8,
    /// The kind of the cause.
    pub kind: CauseKind,
    /// Bytes that the cause is about: memory that grew, the largest part, memory of other processes, free or
    /// unallocated memory, depending on `kind`; else the request.
    pub bytes: u64,
    /// The cause with its figures, as text.
    pub what: String,
    /// The recommended change, as text.
    pub advice: String,
    /// The line that the cause is about, as tables show it. With `kept_graphs` and `no_grad`: the line whose tensor
    /// probably keeps the graphs. `None`: the cause is not about a line, or the line is not known.
    pub line: Option<String>,
    /// The level of `live_bytes` and `owners`: `tensor`, `driver` or `host`.
    #[serde(serialize_with = "super::json::by_name")]
    #[schemars(with = "String")]
    pub level: Level,
    /// Live bytes of this level on the device at the failure.
    pub live_bytes: u64,
    /// Free bytes on the card at the failure; under `GPUMEM_LIMIT`, the free bytes of the limit. `None`: the size of
    /// the card is not known.
    pub free_bytes: Option<u64>,
    /// Reserved but unallocated bytes of PyTorch's pool at the failure.
    pub cached_bytes: u64,
    /// Whether the request would fit into `free_bytes` and `cached_bytes` together, if they were one block. `None`:
    /// `free_bytes` is not known.
    pub would_fit: Option<bool>,
    /// The lines with the most live bytes at the failure, the largest first, at most three.
    pub owners: Vec<Holder>,
}

impl Cause {
    /// The cause of one failure. The capture is read again, because the needed figures are known only after the
    /// failure is.
    ///
    /// # Errors
    /// Only if the capture cannot be read again.
    pub fn read(
        path: &Path,
        session: &Session,
        (number, failure): (u64, OutOfMemory),
        started: &mut dyn FnMut(Progress),
    ) -> Result<Self, Error> {
        let mut reader = Reader::open(path)?;
        started(reader.progress());
        let mut replay = Replay::new(At::Event(failure.seq));
        let mut watch = CauseWatch::new(&session.replay, failure);
        reader.read(&mut |record| {
            let effect = replay.feed(record);
            watch.observe(&replay, record, effect);
        })?;
        let (device, level) = (failure.event.device, watch.level);
        let found = judge::judge(&replay, &watch.course, &failure, level);
        let (what, advice) = words::of(&found);
        let (owners, live_bytes) = owners(&replay, &failure, level);
        Ok(Self {
            number,
            event: failure.seq.0,
            device: device.0,
            kind: found.kind,
            bytes: found.bytes,
            what,
            advice,
            line: found.line.as_ref().map(|line| line.0.clone()),
            level,
            live_bytes,
            free_bytes: found.free,
            cached_bytes: found.cached,
            would_fit: found.would_fit,
            owners,
        })
    }
}

/// Follows a capture up to a failure to find its cause.
pub struct CauseWatch {
    failure: OutOfMemory,
    level: Level,
    course: Course,
}

impl CauseWatch {
    /// Follows a capture that was read to its end before, for one of its failures.
    pub fn new(first: &Replay, failure: OutOfMemory) -> Self {
        let level = level_of(first, &failure);
        Self {
            failure,
            level,
            course: Course::new(failure.seq, failure.event.device, level),
        }
    }

    /// Observes a record of the second reading, after the replay has.
    pub fn observe(&mut self, replay: &Replay, record: Record<'_>, effect: Effect) {
        self.course.observe(replay, record, effect);
    }

    /// The kind of the cause, and the free bytes on the card, if known. The capture must have been read to its end.
    pub fn judge(&self, replay: &Replay) -> (CauseKind, Option<u64>) {
        let found = judge::judge(replay, &self.course, &self.failure, self.level);
        (found.kind, found.free)
    }
}

/// The level whose lines are shown for a failure.
fn level_of(replay: &Replay, failure: &OutOfMemory) -> Level {
    let device = failure.event.device;
    match failure.event.level {
        Level::HOST => Level::HOST,
        _ if replay.levels.contains_key(&(device, Level::TENSOR)) => Level::TENSOR,
        _ => Level::DRIVER,
    }
}

fn owners(replay: &Replay, failure: &OutOfMemory, level: Level) -> (Vec<Holder>, u64) {
    let select = Select {
        device: Some(failure.event.device),
        ..Select::default()
    };
    let held = ByStack::at(replay, level, At::Event(failure.seq), &select);
    Holder::most(replay, &held)
}

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

/// How many lines are named.
const OWNERS: usize = 3;

/// A line with what it held at the failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Holder {
    /// The line as tables show it.
    pub line: String,
    /// Its function.
    pub function: String,
    /// Bytes.
    pub bytes: u64,
    /// Blocks.
    pub blocks: u64,
    /// What tensors' blocks were for, the largest first; empty at other levels.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub categories: Vec<CategoryBytes>,
}

impl Holder {
    /// The lines with most bytes, the largest first, and the bytes of all.
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

/// Why an allocation failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Cause {
    /// The failure's number, from 1.
    pub number: u64,
    /// Its event.
    pub event: u64,
    /// Device ordinal.
    pub device: u8,
    /// What kind.
    pub kind: CauseKind,
    /// What it is about.
    pub bytes: u64,
    /// The cause with its figures.
    pub what: String,
    /// What to change.
    pub advice: String,
    /// The line that the cause is about, or through whose tensor graphs are kept.
    pub line: Option<String>,
    /// The level that the owners are of.
    #[serde(serialize_with = "super::json::by_name")]
    #[schemars(with = "String")]
    pub level: Level,
    /// All that was live of it.
    pub live_bytes: u64,
    /// Free on the card then: `None`: not known.
    pub free_bytes: Option<u64>,
    /// Free in the framework's cache then.
    pub cached_bytes: u64,
    /// Whether the request would have fitted had every free byte been in one piece; `None`: not known.
    pub would_fit: Option<bool>,
    /// The lines that held most, the largest first.
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
    /// For a failure of a capture that was read to its end before.
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

//! Why an allocation failed, judged once for all outputs by [`gpumem_judge`].

mod holders;
mod replays;

use gpumem_capture::{Level, Record};
use gpumem_judge::{Facts, Follow, Verdict, judge, words};
use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use super::by_stack::{ByStack, Select};
use super::categories::CategoryBytes;
use super::lines::Lines;
use super::split::LineSplit;
use crate::names::Names;
use crate::replay::{At, Effect, OutOfMemory, Query, Replay};
use crate::watch::Watch;

pub(in crate::views) use holders::holder_kinds;
pub use holders::{Holder, Holders, PeakHolders, holder_name};
pub use replays::{NotReplays, ReplaysOfRun};

pub use gpumem_judge::{Certainty, Kind as CauseKind};

/// The maximum number of owners in the list.
const OWNERS: usize = 3;

/// A line with its live memory at a point in time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LineOwner {
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

impl LineOwner {
    /// The lines with the most live bytes, the largest first, and the live bytes of all lines.
    pub fn most(replay: &Replay, held: &ByStack) -> (Vec<Self>, u64) {
        let lines = Lines::of(replay, held);
        let live = lines.bytes();
        let owners = lines.rows.into_iter().take(OWNERS).map(|row| Self {
            line: row.owner.label(&replay.names),
            function: row.owner.function().to_owned(),
            bytes: row.bytes,
            blocks: row.blocks,
            categories: row.categories,
        });
        (owners.collect(), live)
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
    #[serde(serialize_with = "named_kind")]
    #[schemars(with = "String", extend("enum" = kinds()))]
    pub kind: CauseKind,
    /// How the cause is known: `proven` by a replay or a walk through the program's objects, `follows` from the events,
    /// or `likely`.
    #[serde(serialize_with = "named_certainty")]
    #[schemars(with = "String", extend("enum" = ["proven", "follows", "likely"]))]
    pub certainty: Certainty,
    /// Whether the program went on after the failure: its thread allocated tensors, or phases of a training began.
    pub survived: bool,
    /// Bytes that the cause is about: memory of earlier rounds, the largest part, memory of other processes, free
    /// memory, or the request, depending on `kind`.
    pub bytes: u64,
    /// The cause with its figures, as text.
    pub what: String,
    /// The recommended change, as text; `None` if nothing is known to help.
    pub advice: Option<String>,
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
    pub owners: Vec<LineOwner>,
    /// How the memory of the first of these lines splits. `None`: it has no more than 60 % of the level, or its stacks do
    /// not differ.
    pub split: Option<LineSplit>,
    /// The Python objects that kept the tensors at the failure. `None`: the recorder did not look for them.
    pub holders: Option<Holders>,
}

impl Cause {
    /// The cause as a statement: `likely: ` before it if the events would also fit something else.
    pub fn statement(&self) -> String {
        match self.certainty {
            Certainty::Likely => format!("likely: {}", self.what),
            Certainty::Proven | Certainty::Follows => self.what.clone(),
        }
    }

    fn judged(&mut self, names: &Names, facts: &Facts, verdict: &Verdict) {
        self.kind = verdict.kind;
        self.certainty = verdict.certainty;
        self.survived = facts.went_on;
        self.bytes = verdict.bytes;
        self.what = words::what(names, facts, verdict);
        self.advice = words::advice(names, facts, verdict);
        self.line = verdict.line.as_ref().map(|owner| owner.label(names));
        self.split = facts.most.as_ref().and_then(|most| {
            let line = most.owner.line()?;
            LineSplit::of(names, line, most.figure, self.live_bytes, &most.split)
        });
        let holders = facts.holders.as_ref().filter(|of| !of.is_earlier);
        self.holders = holders.map(Holders::of);
        self.free_bytes = facts.card.free();
        self.cached_bytes = facts.reserved.saturating_sub(facts.tensors);
        let free = self
            .free_bytes
            .map(|free| free.saturating_add(self.cached_bytes));
        self.would_fit = free.map(|free| free >= facts.needed());
    }
}

/// Follows a second pass up to a failure to find its cause.
pub struct CauseWatch(Follow);

impl CauseWatch {
    /// Follows a capture that was read to its end before, for one of its failures.
    pub fn new(first: &Replay, failure: OutOfMemory) -> Self {
        Self(Follow::new(failure, level_of(first, &failure)))
    }

    /// The kind of the cause, and the free bytes on the card, if known. The pass must have been made.
    pub fn judge(&self) -> (CauseKind, Option<u64>) {
        match self.0.facts() {
            Some(facts) => (judge(facts).kind, facts.card.free()),
            None => (CauseKind::Unknown, None),
        }
    }

    /// The query of the pass: the categories of what was live at the failure are known only after it.
    pub fn query(&self) -> Query {
        At::Event(self.0.failure().seq).into()
    }

    /// The cause of the failure, which has this number in the capture. `replay` is the second pass, which was made for
    /// [`CauseWatch::query`]; `replays`: what replays of this capture under other settings gave.
    pub fn finish(self, replay: &Replay, number: u64, replays: Option<&ReplaysOfRun>) -> Cause {
        let (failure, level) = (self.0.failure(), self.0.level());
        let (owners, live_bytes) = owners(replay, &failure, level);
        let mut cause = Cause {
            number,
            event: failure.seq.0,
            device: failure.event.device.0,
            kind: CauseKind::Unknown,
            certainty: Certainty::Follows,
            survived: false,
            bytes: failure.event.bytes,
            what: words::UNKNOWN.into(),
            advice: None,
            line: None,
            level,
            live_bytes,
            free_bytes: None,
            cached_bytes: 0,
            would_fit: None,
            owners,
            split: None,
            holders: None,
        };
        if let Some(facts) = self.0.facts() {
            let mut facts = facts.clone();
            facts.replays = replays.and_then(|of| of.on(failure.event.device));
            cause.judged(&replay.names, &facts, &judge(&facts));
        }
        cause
    }
}

impl Watch for CauseWatch {
    fn after(&mut self, replay: &Replay, record: Record<'_>, effect: Effect) {
        self.0.observe(replay, record, effect);
    }
}

fn named_kind<S: Serializer>(kind: &CauseKind, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(kind.name())
}

fn named_certainty<S: Serializer>(certainty: &Certainty, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(certainty.name())
}

fn kinds() -> Vec<&'static str> {
    CauseKind::ALL.iter().map(|kind| kind.name()).collect()
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

fn owners(replay: &Replay, failure: &OutOfMemory, level: Level) -> (Vec<LineOwner>, u64) {
    let select = Select {
        device: Some(failure.event.device),
        ..Select::default()
    };
    let held = ByStack::at(replay, level, At::Event(failure.seq), &select);
    LineOwner::most(replay, &held)
}

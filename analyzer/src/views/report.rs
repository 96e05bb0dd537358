//! The whole report: the command, the cause of a failure, the peak of each GPU and the lines that owned it, the
//! largest changes, and hints.

use gpumem_capture::{DeviceOrdinal, Level};
use schemars::JsonSchema;
use serde::Serialize;

use super::by_stack::ByStack;
use super::json::by_name;
use super::{Cause, Change, Hint, Hints, Ledger, LineRow, Lines, Summary};
use crate::replay::Replay;
use crate::session::Session;

/// A GPU at its peak.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PeakReport<'a> {
    /// What its memory consisted of.
    pub ledger: &'a Ledger,
    /// The level of the lines: tensors, or the driver's if it has no tensors.
    #[serde(serialize_with = "by_name")]
    #[schemars(with = "String")]
    pub level: Level,
    /// The lines that owned it.
    pub lines: Vec<LineRow>,
}

/// A change, and how often it happened alike.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ChangeReport<'a> {
    /// How often.
    pub times: u64,
    /// The first one.
    #[serde(flatten)]
    pub change: &'a Change,
}

/// All of it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Report<'a> {
    /// What ran.
    pub summary: Summary,
    /// Why memory ran out, if it did.
    pub cause: Option<&'a Cause>,
    /// The GPUs.
    pub peaks: Vec<PeakReport<'a>>,
    /// The greatest changes, in the order of time.
    pub changes: Vec<ChangeReport<'a>>,
    /// How many changes there are in all.
    pub changes_seen: u64,
    /// What could be done.
    pub hints: &'a [Hint],
}

impl<'a> Report<'a> {
    /// From a capture. `changes` are the largest ones, and the number of all.
    pub fn of(
        session: &Session,
        cause: Option<&'a Cause>,
        ledgers: &'a [Ledger],
        (changes, changes_seen): (&'a [(Change, u64)], u64),
        hints: &'a Hints,
    ) -> Self {
        let peaks = ledgers.iter().map(|ledger| {
            let lines = lines_at_peak(&session.replay, ledger);
            PeakReport {
                ledger,
                level: lines.level,
                lines: lines.rows,
            }
        });
        let changes = changes.iter().map(|(change, times)| ChangeReport {
            times: *times,
            change,
        });
        Self {
            summary: Summary::of(session),
            cause,
            peaks: peaks.collect(),
            changes: changes.collect(),
            changes_seen,
            hints: &hints.hints,
        }
    }
}

/// The lines that own a GPU's peak: of tensors, or of the driver level without tensors.
pub fn lines_at_peak(replay: &Replay, ledger: &Ledger) -> Lines {
    let device = DeviceOrdinal(ledger.device);
    let level = match replay.levels.contains_key(&(device, Level::TENSOR)) {
        true => Level::TENSOR,
        false => Level::DRIVER,
    };
    Lines::of(replay, &ByStack::at_device_peak(replay, device, level))
}

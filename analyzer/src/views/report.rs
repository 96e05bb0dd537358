//! The whole report: the command, the cause of a failure, the peak of each GPU and the lines that owned it, the
//! largest changes, and hints.

use gpumem_capture::{DeviceOrdinal, Level};
use schemars::JsonSchema;
use serde::Serialize;

use super::by_stack::ByStack;
use super::json::by_name;
use super::{Cause, Change, Hint, Hints, Ledger, LineRow, LineSplit, Lines, PeakHolders, Summary};
use crate::replay::Replay;
use crate::session::Session;

/// A GPU at its peak.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PeakReport<'a> {
    /// All memory of the GPU at the peak, by part.
    pub ledger: &'a Ledger,
    /// Level of `lines`: `tensor`, or `driver` if the GPU has no tensors.
    #[serde(serialize_with = "by_name")]
    #[schemars(with = "String")]
    pub level: Level,
    /// Lines that own live memory of the level at the peak, the largest first.
    pub lines: Vec<LineRow>,
    /// The Python objects that kept the tensors soon after the peak; `None`: the recorder did not look for them
    /// (`GPUMEM_HOLDERS`).
    pub holders: Option<PeakHolders>,
    /// How the memory of the first of these lines splits. `None`: it has no more than 60 % of the level, or its stacks do
    /// not differ.
    pub split: Option<LineSplit>,
}

/// A change of memory, and the number of similar changes: by the same line, on the same device and of the same size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ChangeReport<'a> {
    /// Number of similar changes, this one included.
    pub times: u64,
    /// The change during which memory rose most; the first one if they are equal.
    #[serde(flatten)]
    pub change: &'a Change,
}

/// The whole report of a capture.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Report<'a> {
    /// Figures of the whole capture: process, devices and levels.
    pub summary: Summary,
    /// Why memory ran out; `None`: no allocation failed.
    pub cause: Option<&'a Cause>,
    /// The peak of each GPU that held memory.
    pub peaks: Vec<PeakReport<'a>>,
    /// The eight largest changes of memory, by time.
    pub changes: Vec<ChangeReport<'a>>,
    /// Number of all changes of memory in the capture, the smaller ones included.
    pub changes_seen: u64,
    /// Suggestions for using less memory; empty if no hint applies.
    pub hints: &'a [Hint],
}

impl<'a> Report<'a> {
    /// Builds the report of a capture. `changes` are the largest ones, and the number of all.
    pub fn of(
        session: &Session,
        cause: Option<&'a Cause>,
        ledgers: &'a [Ledger],
        (changes, changes_seen): (&'a [(Change, u64)], u64),
        hints: &'a Hints,
    ) -> Self {
        let peaks = ledgers.iter().map(|ledger| {
            let (lines, split) = lines_at_peak(&session.replay, ledger);
            PeakReport {
                ledger,
                level: lines.level,
                lines: lines.rows,
                holders: PeakHolders::of(&session.replay.names, DeviceOrdinal(ledger.device)),
                split,
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

/// The lines that own a GPU's peak, and how the first splits if it has most of it: at the tensor level, or at the driver
/// level if it has no tensors.
pub fn lines_at_peak(replay: &Replay, ledger: &Ledger) -> (Lines, Option<LineSplit>) {
    let device = DeviceOrdinal(ledger.device);
    let level = match replay.levels.contains_key(&(device, Level::TENSOR)) {
        true => Level::TENSOR,
        false => Level::DRIVER,
    };
    let held = ByStack::at_device_peak(replay, device, level);
    let lines = Lines::of(replay, &held);
    let split = LineSplit::largest(replay, &held, &lines);
    (lines, split)
}

//! The input of a page, and the limits of its size.

use std::collections::BTreeMap;

use gpumem_capture::DeviceOrdinal;

use crate::replay::Replay;
use crate::views::{Cause, DeviceThen, Hints, Leaks, Ledger, PastBlocks, Stretch, Timeline};

/// The input of a page.
pub struct PageSources<'a> {
    /// The capture, read to its end.
    pub replay: &'a Replay,
    /// Memory over time.
    pub timeline: &'a Timeline,
    /// The live bytes by stack at some points in time.
    pub moments: &'a BTreeMap<DeviceOrdinal, Vec<DeviceThen>>,
    /// The history of blocks.
    pub blocks: &'a PastBlocks,
    /// The ledgers at the peaks.
    pub ledgers: &'a [Ledger],
    /// The cause of the main failure.
    pub cause: Option<&'a Cause>,
    /// The hints.
    pub hints: &'a Hints,
    /// The memory that was live at the end of the last step, its event and its time; `None`: nothing was allocated.
    pub leaks: Option<&'a (Leaks, (u64, u64))>,
    /// The part of the run for blocks and points in time.
    pub stretch: Stretch,
    /// The event of the first view; by default the peak.
    pub shown: Option<u64>,
}

/// The head of the page.
#[derive(Clone, Debug, Default)]
pub struct PageHead {
    /// The capture's name.
    pub file: String,
    /// The command.
    pub ran: String,
    /// Whether the account is exact.
    pub exact: bool,
    /// The result of the accuracy check, in lines.
    pub account: Vec<String>,
    /// What is missing.
    pub missing: Vec<String>,
    /// The main failure, in a sentence.
    pub failed: Option<String>,
    /// The part of the run, such as `from step 3 to the end`; `None` for all of it.
    pub part: Option<String>,
}

/// The maximum sizes of a page. Data beyond them is summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageLimits {
    /// Stacks, over all points in time.
    pub stacks: usize,
    /// Blocks of each level of each device.
    pub blocks: usize,
    /// Stretches of time of each device.
    pub buckets: usize,
    /// Spans of each lane, the widest.
    pub spans: usize,
    /// Segments of each device's pool.
    pub segments: usize,
    /// Rows of each table of the whole run.
    pub rows: usize,
    /// The length of a name.
    pub name: usize,
}

/// Other limits are reduced before stacks are reduced below this.
const FEW_STACKS: usize = 1000;
/// Rows of tables are reduced to this before stacks are.
const FEW_ROWS: usize = 250;

impl Default for PageLimits {
    fn default() -> Self {
        Self {
            stacks: 16_000,
            blocks: usize::MAX,
            buckets: 1024,
            spans: 512,
            segments: 256,
            rows: 1000,
            name: 300,
        }
    }
}

impl PageLimits {
    /// Smaller limits: first fewer rows, then fewer stacks; if both are already low, half of everything.
    pub fn less(self) -> Self {
        if self.rows > FEW_ROWS {
            let rows = FEW_ROWS;
            return Self { rows, ..self };
        }
        let stacks = self.stacks / 4 * 3;
        if stacks >= FEW_STACKS {
            return Self { stacks, ..self };
        }
        Self {
            stacks,
            spans: self.spans / 2,
            blocks: self.blocks.min(1 << 18) / 2,
            buckets: (self.buckets / 2).max(16),
            segments: self.segments / 2,
            rows: (self.rows / 2).max(16),
            name: (self.name / 2).max(16),
        }
    }
}

/// Truncates a text to `most` characters.
pub(super) fn clip(text: &str, most: usize) -> String {
    let mut out: String = text.chars().take(most + 1).collect();
    if out.chars().count() > most {
        out.pop();
        out.push('…');
    }
    out
}

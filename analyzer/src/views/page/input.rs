//! What a page is made from, and how much of that it has at most.

use std::collections::BTreeMap;

use gpumem_capture::DeviceOrdinal;

use crate::replay::Replay;
use crate::views::{Cause, DeviceThen, Hints, Leaks, Ledger, PastBlocks, Stretch, Timeline};

/// What a page is made from.
pub struct PageSources<'a> {
    /// The capture, read to its end.
    pub replay: &'a Replay,
    /// Memory over time.
    pub timeline: &'a Timeline,
    /// The live bytes by stack at some moments.
    pub moments: &'a BTreeMap<DeviceOrdinal, Vec<DeviceThen>>,
    /// Blocks over their lives.
    pub blocks: &'a PastBlocks,
    /// The ledgers at the peaks.
    pub ledgers: &'a [Ledger],
    /// Why the failure to tell of first happened.
    pub cause: Option<&'a Cause>,
    /// What could be done.
    pub hints: &'a Hints,
    /// What was alive at the end of the last step, its event and its time; `None`: nothing was allocated.
    pub leaks: Option<&'a (Leaks, (u64, u64))>,
    /// Of which part of the run blocks and moments are.
    pub stretch: Stretch,
    /// The event of the moment to show first; else the peak is.
    pub shown: Option<u64>,
}

/// What stands above all figures.
#[derive(Clone, Debug, Default)]
pub struct PageHead {
    /// The capture's name.
    pub file: String,
    /// What ran.
    pub ran: String,
    /// Whether the account is exact.
    pub exact: bool,
    /// What may be claimed, in lines.
    pub account: Vec<String>,
    /// What is missing.
    pub missing: Vec<String>,
    /// The failure to tell of first, in a sentence.
    pub failed: Option<String>,
    /// Which part of the run it is: `from step 3 to the end`; `None`: all of it.
    pub part: Option<String>,
}

/// How much a page has at most; what is beyond is summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageLimits {
    /// Stacks, over all moments.
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
    /// Characters of a name.
    pub name: usize,
}

/// Rather than fewer stacks than this, there is less of all else.
const FEW_STACKS: usize = 1000;
/// Rather than fewer stacks, tables have no more rows than this.
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
    /// Less: fewer rows, then fewer stacks, and if those are few already, half of everything.
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

/// A text of so many characters at most.
pub(super) fn clip(text: &str, most: usize) -> String {
    let plain = text.chars().map(|c| match c {
        c if c.is_control() => '\u{fffd}',
        c => c,
    });
    let mut out: String = plain.take(most + 1).collect();
    if out.chars().count() > most {
        out.pop();
        out.push('…');
    }
    out
}

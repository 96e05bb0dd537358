//! What the page for a browser is made of: tables of numbers that refer to each other, all bounded.

mod chart;
mod devices;
mod stacks;

use std::collections::BTreeMap;

use gpumem_capture::DeviceOrdinal;
use serde::Serialize;

use super::{DeviceThen, Ledger, Timeline};
use crate::attribution::owner;
use crate::replay::{Replay, when_of};
use crate::symbols::Symbols;

pub use chart::{PageBand, PageChart, PageCourse};
pub use devices::{PageDevice, PageLedgerRow, PagePool, PageSegment, PageSegmentLine};
pub use stacks::{PageLevel, PageMoment, PageOwner, PageStacks};

/// How much a page has at most; what is beyond is summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageLimits {
    /// Stacks, over all moments.
    pub stacks: usize,
    /// Stretches of time of each device.
    pub buckets: usize,
    /// Segments of each device's pool.
    pub segments: usize,
    /// Characters of a name.
    pub name: usize,
}

/// Rather than fewer stacks than this, there is less of all else.
const FEW_STACKS: usize = 1000;

impl Default for PageLimits {
    fn default() -> Self {
        Self {
            stacks: 16_000,
            buckets: 1024,
            segments: 256,
            name: 300,
        }
    }
}

impl PageLimits {
    /// Less: half as many stacks, and if those are few already, half of everything.
    pub fn less(self) -> Self {
        let stacks = self.stacks / 2;
        if stacks >= FEW_STACKS {
            return Self { stacks, ..self };
        }
        Self {
            stacks,
            buckets: (self.buckets / 2).max(16),
            segments: self.segments / 2,
            name: (self.name / 2).max(16),
        }
    }
}

/// A failed allocation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PageFailure {
    /// Which event.
    pub seq: u64,
    /// When.
    pub time: u64,
    /// On which device.
    pub device: Option<u8>,
    /// What was asked for.
    pub bytes: u64,
    /// The line that asked.
    pub line: String,
    /// What the program was at.
    pub when: String,
}

/// All that the page shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Page {
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
    /// When the axis begins, ns.
    pub from: u64,
    /// When it ends.
    pub to: u64,
    /// Whether phases were marked.
    pub trains: bool,
    /// Steps and phases.
    pub course: PageCourse,
    /// Frames, owners and stacks of all moments.
    pub stacks: PageStacks,
    /// The devices.
    pub devices: Vec<PageDevice>,
    /// The first failures.
    pub failures: Vec<PageFailure>,
    /// All failures.
    pub failure_count: u64,
}

/// What a page is made from.
pub struct PageSources<'a> {
    /// The capture, read to its end.
    pub replay: &'a Replay,
    /// Memory over time.
    pub timeline: &'a Timeline,
    /// The live bytes by stack at some moments.
    pub moments: &'a BTreeMap<DeviceOrdinal, Vec<DeviceThen>>,
    /// The ledgers at the peaks.
    pub ledgers: &'a [Ledger],
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
}

impl Page {
    /// Puts the page together. `source` gives a line's text, or nothing.
    pub fn of(
        head: &PageHead,
        from: &PageSources<'_>,
        symbols: &mut Symbols,
        source: &mut dyn FnMut(&str, u32) -> String,
        limits: PageLimits,
    ) -> Self {
        let (replay, timeline) = (from.replay, from.timeline);
        let mut stacks = stacks::Build::new(replay, limits);
        stacks.choose(from.moments, symbols, source);
        let devices = timeline.devices.iter();
        let devices = devices
            .map(|device| devices::device(device, from, &stacks, limits))
            .collect();
        let clip = |text: &String| clip(text, limits.name);
        let failures = replay.failures.iter().map(|failure| {
            let event = &failure.event;
            let owner = owner(&replay.names, failure.circumstance.stacks, event.level);
            PageFailure {
                seq: failure.seq.0,
                time: event.time.0,
                device: (event.device != DeviceOrdinal::NONE).then_some(event.device.0),
                bytes: event.bytes,
                line: clip(&owner.label(&replay.names)),
                when: clip(&crate::render::when(&when_of(replay, failure.circumstance))),
            }
        });
        Self {
            file: clip(&head.file),
            ran: clip(&head.ran),
            exact: head.exact,
            account: head.account.iter().map(clip).collect(),
            missing: head.missing.iter().take(50).map(clip).collect(),
            from: timeline.from_ns,
            to: timeline.to_ns,
            trains: timeline.trains,
            course: PageCourse::of(timeline, limits),
            failures: failures.collect(),
            failure_count: replay.failure_count,
            devices,
            stacks: stacks.finish(),
        }
    }
}

/// A text of so many characters at most.
fn clip(text: &str, most: usize) -> String {
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

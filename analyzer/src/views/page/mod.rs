//! The data of the page for a browser: tables of numbers that refer to each other. The size of each is bounded.

mod answer;
mod chart;
mod devices;
mod history;
mod holders;
mod input;
mod libraries;
mod modules;
mod rows;
mod sections;
mod spans;
mod stacks;

use serde::Serialize;

use crate::account::when_of;
use crate::attribution::owner;
use crate::replay::Category;
use crate::symbols::Symbols;
use crate::views::LineOwner;
use crate::views::json::ordinal;
use crate::views::pytorch::allocator_words;
use input::clip;
use libraries::Libraries;

pub use answer::{PageAnswer, PagePeak};
pub use chart::{PageBand, PageChart, PageLane};
pub use devices::{PageDevice, PageLedgerRow, PagePool, PageSegment, PageSegmentLine};
pub use history::PageHistory;
pub use holders::PageCauseHolders;
pub use input::{PageHead, PageLimits, PageSources};
pub use modules::PageModule;
pub use rows::{PageEvidence, PageHint, PageLeak, PageLeaks, PageLine};
pub use sections::{PageHeld, PageHolders, PageSections};
pub use spans::PageSpans;
pub use stacks::{PageLevel, PageMoment, PageOwner, PagePart, PageStacks};

/// A failed allocation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PageFailure {
    /// The event.
    pub seq: u64,
    /// The time.
    pub time: u64,
    /// The device.
    pub device: Option<u8>,
    /// The requested bytes.
    pub bytes: u64,
    /// The line that requested them.
    pub line: String,
    /// The step and phase.
    pub when: String,
}

/// The cause of the main failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PageCause {
    /// The event.
    pub seq: u64,
    /// The cause with its figures.
    pub what: String,
    /// What to change.
    pub advice: String,
    /// The lines that held most then.
    pub owners: Vec<LineOwner>,
    /// All live bytes of their level then.
    pub live: u64,
    /// The Python objects that kept the tensors; `None`: the recorder did not look for them.
    pub holders: Option<PageCauseHolders>,
}

/// All data of the page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Page {
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
    /// The first section.
    pub answer: PageAnswer,
    /// The part of the run, as text; `None` for all of it.
    pub part: Option<String>,
    /// The first and the last event of that part.
    pub events: [Option<u64>; 2],
    /// The start of the axis, ns.
    pub from: u64,
    /// Its end.
    pub to: u64,
    /// The event of the first view; by default the peak.
    pub shown: Option<u64>,
    /// Whether phases were marked.
    pub trains: bool,
    /// Idle stretches that are drawn narrow: from, to.
    pub folds: Vec<[u64; 2]>,
    /// Phases, steps, ranges, scopes and marks.
    pub lanes: Vec<PageLane>,
    /// The names of categories that blocks refer to by number.
    pub categories: Vec<&'static str>,
    /// Libraries that requested memory from the driver. Blocks refer to the names by number.
    pub libraries: Vec<String>,
    /// PyTorch's allocator and its settings; `None` without PyTorch or if they are not known.
    pub allocator: Option<String>,
    /// Mappings of VMM handles, address space, reservations.
    pub spans: PageSpans,
    /// Parts of PyTorch's pool: the stream's handle, the pool's id (zeros: the default one).
    pub placements: Vec<[u64; 3]>,
    /// Frames, owners and stacks of all points in time and blocks.
    pub stacks: PageStacks,
    /// The devices.
    pub devices: Vec<PageDevice>,
    /// The first failures, and the newest, in the part of the run.
    pub failures: Vec<PageFailure>,
    /// All failures of it.
    pub failure_count: u64,
    /// Refusals of the driver after which PyTorch's allocator succeeded.
    pub retries: u64,
    /// The cause of the main failure.
    pub cause: Option<PageCause>,
    /// Tables of the whole run.
    pub sections: PageSections,
}

impl Page {
    /// Assembles the page. `source` returns a line's text, or an empty one.
    pub fn of(
        head: &PageHead,
        from: &PageSources<'_>,
        symbols: &mut Symbols,
        source: &mut dyn FnMut(&str, u32) -> String,
        limits: PageLimits,
    ) -> Self {
        let (replay, timeline) = (from.replay, from.timeline);
        let mut stacks = stacks::Build::new(replay, limits);
        stacks.choose(from.moments, from.blocks, symbols, source);
        let libraries = Libraries::of(replay, from.blocks);
        let devices = timeline.devices.iter();
        let devices = devices
            .map(|device| devices::device(device, from, &stacks, &libraries, limits))
            .collect();
        let clip = |text: &String| clip(text, limits.name);
        let failures = replay.failures.all().into_iter();
        let failures = failures.filter(|(_, failure)| from.stretch.has(failure.seq));
        let failures = failures.map(|(_, failure)| {
            let event = &failure.event;
            let owner = owner(&replay.names, failure.span_context.stacks, event.level);
            PageFailure {
                seq: failure.seq.0,
                time: event.time.0,
                device: ordinal(event.device),
                bytes: event.bytes,
                line: clip(&owner.label(&replay.names)),
                when: clip(&crate::views::when(&when_of(replay, failure.span_context))),
            }
        });
        Self {
            file: clip(&head.file),
            ran: clip(&head.ran),
            exact: head.exact,
            account: head.account.iter().map(clip).collect(),
            missing: head.missing.iter().take(50).map(clip).collect(),
            answer: PageAnswer::of(head.failed.as_deref(), from, limits),
            part: head.part.clone(),
            events: [timeline.from_seq, timeline.to_seq],
            from: timeline.from_ns,
            to: timeline.to_ns,
            shown: from.shown,
            trains: timeline.trains,
            folds: timeline.folds.clone(),
            lanes: PageLane::all(timeline, limits),
            failures: failures.collect(),
            failure_count: timeline.failure_count,
            retries: replay.failures.answered(),
            cause: from.cause.map(|cause| PageCause {
                seq: cause.event,
                what: clip(&cause.statement()),
                advice: clip(&cause.advice.clone().unwrap_or_default()),
                owners: cause
                    .owners
                    .iter()
                    .map(|of| answer::clipped(of, limits))
                    .collect(),
                live: cause.live_bytes,
                holders: cause
                    .holders
                    .as_ref()
                    .filter(|of| !of.rows.is_empty())
                    .map(|of| PageCauseHolders::of(of, limits)),
            }),
            devices,
            categories: Category::ALL.map(Category::name).to_vec(),
            libraries: libraries.names().iter().map(clip).collect(),
            allocator: allocator_words(replay).map(|text| clip(&text)),
            spans: PageSpans::of(&from.blocks.spans, limits),
            placements: history::placements(from.blocks),
            stacks: stacks.finish(),
            sections: PageSections::of(from, source, limits),
        }
    }
}

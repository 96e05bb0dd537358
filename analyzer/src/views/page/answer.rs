//! The first section of the page: whether memory ran out, and the holders at the peak of each device.

use gpumem_capture::{DeviceOrdinal, Level};
use serde::Serialize;

use super::holders::PageCauseHolders;
use super::input::{PageLimits, PageSources, clip};
use crate::views::{ByStack, Ledger, LineOwner, PeakHolders};

/// A device at its peak in the whole run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PagePeak {
    /// Its ordinal.
    pub device: u8,
    /// The event; `None`: not known.
    pub seq: Option<u64>,
    /// Its time.
    pub time: Option<u64>,
    /// The step and phase at this time.
    pub when: String,
    /// The sum of its ledger.
    pub bytes: u64,
    /// Memory of the card.
    pub total: Option<u64>,
    /// The level that the lines are of.
    pub level: &'static str,
    /// All live bytes of this level.
    pub live: u64,
    /// The lines that held most, the largest first.
    pub owners: Vec<LineOwner>,
    /// The Python objects that kept the tensors soon after it, and the event; `None`: the recorder did not look.
    pub holders: Option<(u64, PageCauseHolders)>,
}

/// The first section of the page.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PageAnswer {
    /// The main failure, as in the report; `None` without failures.
    pub failed: Option<String>,
    /// Other failures of the run.
    pub others: u64,
    /// The peaks of the devices in the whole run.
    pub peaks: Vec<PagePeak>,
}

impl PageAnswer {
    pub(super) fn of(failed: Option<&str>, from: &PageSources<'_>, limits: PageLimits) -> Self {
        let ledgers = from.ledgers.iter();
        Self {
            failed: failed.map(|text| clip(text, 4 * limits.name)),
            others: from.replay.failures.count().saturating_sub(1),
            peaks: ledgers.map(|ledger| peak(ledger, from, limits)).collect(),
        }
    }
}

fn peak(ledger: &Ledger, from: &PageSources<'_>, limits: PageLimits) -> PagePeak {
    let replay = from.replay;
    let device = DeviceOrdinal(ledger.device);
    let level = match replay.levels.contains_key(&(device, Level::TENSOR)) {
        true => Level::TENSOR,
        false => Level::DRIVER,
    };
    let held = ByStack::at_device_peak(replay, device, level);
    let (owners, live) = LineOwner::most(replay, &held);
    PagePeak {
        device: ledger.device,
        seq: ledger.seq,
        time: ledger.time_ns,
        when: clip(&crate::views::when(&ledger.when), limits.name),
        bytes: ledger.bytes,
        total: ledger.total_bytes,
        level: level.name(),
        live,
        owners: owners.iter().map(|of| clipped(of, limits)).collect(),
        holders: PeakHolders::of(&replay.names, device)
            .map(|of| (of.event, PageCauseHolders::of(&of.holders, limits))),
    }
}

/// A holder with truncated names.
pub(super) fn clipped(of: &LineOwner, limits: PageLimits) -> LineOwner {
    LineOwner {
        line: clip(&of.line, limits.name),
        function: clip(&of.function, limits.name),
        ..of.clone()
    }
}

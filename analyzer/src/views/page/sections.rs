//! The tables of the whole run: categories, modules, hints, and leaks.
//!
//! Each has the same figures as the command with its name, from the same view.

use gpumem_capture::{DeviceOrdinal, Level, Nanos, Seq};
use serde::Serialize;

use super::input::{PageLimits, PageSources};
use super::modules::{PageModule, module_tree};
use super::rows::{PageHint, PageLeaks, hint, leaks};
use crate::replay::{At, Replay};
use crate::views::json::ordinal;
use crate::views::{ByStack, CategoryRow, Select, categories, level_or_default};

/// A level at a point in time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PageHeld {
    /// The event.
    pub seq: u64,
    /// The time.
    pub time: u64,
    /// All bytes.
    pub bytes: u64,
    /// By category, the largest first.
    pub categories: Vec<CategoryRow>,
    /// By module. The root is the sum.
    pub modules: PageModule,
}

/// The categories and modules of a device's memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PageHolders {
    /// Its ordinal; `None` for memory of no device.
    pub device: Option<u8>,
    /// At the level's own peak in the whole run; `None` without memory.
    pub peak: Option<PageHeld>,
    /// At the end of the run, if that is not the peak.
    pub end: Option<PageHeld>,
}

/// The tables of the whole run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PageSections {
    /// The level.
    pub level: &'static str,
    /// Whether stacks were sampled, so that parts of a level are estimates.
    pub estimated: bool,
    /// By device.
    pub devices: Vec<PageHolders>,
    /// Hints, those with most bytes first.
    pub hints: Vec<PageHint>,
    /// Memory that was live at the end of the last step; `None` if there was none.
    pub leaks: Option<PageLeaks>,
}

impl PageSections {
    pub(super) fn of(
        from: &PageSources<'_>,
        source: &mut dyn FnMut(&str, u32) -> String,
        limits: PageLimits,
    ) -> Self {
        let replay = from.replay;
        let level = level_or_default(None, replay);
        let rows = replay.levels.keys().filter(|(_, of)| *of == level);
        let hints = from.hints.hints.iter();
        Self {
            level: level.name(),
            estimated: replay.sampling.is_some() && level == Level::TENSOR,
            devices: rows
                .map(|(device, _)| holders(replay, *device, level, limits))
                .collect(),
            hints: hints
                .map(|of| hint(of, &replay.names, source, limits))
                .collect(),
            leaks: from
                .leaks
                .map(|of| leaks(of, &replay.names, source, limits)),
        }
    }
}

fn holders(
    replay: &Replay,
    device: DeviceOrdinal,
    level: Level,
    limits: PageLimits,
) -> PageHolders {
    let state = replay.levels.get(&(device, level));
    let counters = replay.counters(device, level);
    let at_peak = state.map(|state| state.peak);
    let end = (replay.last_seq, replay.last);
    let at = |moment: At, (seq, time): (Seq, Nanos)| {
        let select = Select {
            device: Some(device),
            ..Select::default()
        };
        let held = ByStack::at(replay, level, moment, &select);
        PageHeld {
            seq: seq.0,
            time: time.0,
            bytes: held.bytes(),
            categories: categories(&held),
            modules: module_tree(replay, &held, limits),
        }
    };
    let was_more = counters.live != counters.peak;
    PageHolders {
        device: ordinal(device),
        peak: at_peak
            .filter(|_| counters.peak > 0)
            .map(|moment| at(At::Peak, moment)),
        end: (counters.peak > 0 && (was_more || at_peak != Some(end))).then(|| at(At::End, end)),
    }
}

//! What stacks held and had allocated some steps ago, as the baseline of growth and rates.

use gpumem_analyzer::replay::{At, Figure, Replay, StackKey};
use gpumem_analyzer::views::{ByStack, DeviceStacks};
use gpumem_capture::{DeviceOrdinal, Level, Nanos};

/// What stacks held at the end of a step.
#[derive(Debug)]
pub(crate) struct Baseline {
    pub(crate) steps: u64,
    pub(crate) time: Nanos,
    held: Vec<Held>,
}

#[derive(Debug)]
struct Held {
    device: DeviceOrdinal,
    level: Level,
    live: Vec<(StackKey, Figure)>,
    allocated: Vec<(StackKey, Figure)>,
}

impl Baseline {
    fn of(replay: &Replay) -> Self {
        let levels = replay.levels.keys();
        let held = levels.map(|(device, level)| Held {
            device: *device,
            level: *level,
            live: replay.figures(*device, *level, At::End),
            allocated: replay.allocated(*device, *level),
        });
        Self {
            steps: replay.spans.steps,
            time: replay.last,
            held: held.collect(),
        }
    }

    /// What was live.
    pub(crate) fn live(&self, level: Level, device: Option<DeviceOrdinal>) -> ByStack {
        self.stacks(level, device, |held| &held.live)
    }

    /// What had been allocated.
    pub(crate) fn allocated(&self, level: Level, device: Option<DeviceOrdinal>) -> ByStack {
        self.stacks(level, device, |held| &held.allocated)
    }

    fn stacks(
        &self,
        level: Level,
        device: Option<DeviceOrdinal>,
        figures: impl Fn(&Held) -> &Vec<(StackKey, Figure)>,
    ) -> ByStack {
        let takes =
            |held: &&Held| held.level == level && device.is_none_or(|only| only == held.device);
        let devices = self.held.iter().filter(takes).map(|held| DeviceStacks {
            device: held.device,
            figures: figures(held).clone(),
            total: None,
        });
        ByStack {
            level,
            devices: devices.collect(),
        }
    }
}

/// The ends of steps 1, 2, 4, 8 and so on; the last two of them are kept. So the period since the baseline covers at
/// least half of all steps, excludes the first step, and does not depend on the time of a request.
#[derive(Debug, Default)]
pub(crate) struct Baselines {
    seen: u64,
    newer: Option<Baseline>,
    older: Option<Baseline>,
}

impl Baselines {
    /// Takes in a replay after each record, or before each.
    pub(crate) fn observe(&mut self, replay: &Replay) {
        let steps = replay.spans.steps;
        if steps == self.seen {
            return;
        }
        // The numbers of steps may have gaps.
        let is_due = steps.checked_ilog2() != self.seen.checked_ilog2();
        self.seen = steps;
        if is_due {
            self.older = self.newer.replace(Baseline::of(replay));
        }
    }

    /// Steps that have ended.
    pub(crate) fn seen(&self) -> u64 {
        self.seen
    }

    /// The baseline to compare with; `None` if too few steps have ended.
    pub(crate) fn get(&self) -> Option<&Baseline> {
        let newer = || self.newer.as_ref().filter(|of| of.steps < self.seen);
        self.older.as_ref().or_else(newer)
    }
}

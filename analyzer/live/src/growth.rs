//! The growth of live memory from round to round.

use std::collections::{HashMap, VecDeque};

use gpumem_analyzer::replay::{Figure, Replay};
use gpumem_capture::{DeviceOrdinal, EventKind, Level, Record};
use gpumem_judge::{Growth, RoundClock, RoundOf};

/// The number of newest rounds that count.
const ROUNDS: usize = 32;
/// With fewer rounds, the program is in its warm-up.
const LEAST: usize = 4;

/// The live memory at the ends of the last 32 steps, or rounds of a loop: of tensors, or of CUDA's memory without
/// tensors.
#[derive(Debug, Default)]
pub struct LiveGrowth {
    clock: RoundClock,
    ends: HashMap<(RoundOf, DeviceOrdinal), VecDeque<(u64, Figure)>>,
}

impl LiveGrowth {
    /// Takes in a record after the replay took it in.
    pub(crate) fn observe(&mut self, replay: &Replay, record: Record<'_>) {
        let Some((of, round)) = self.clock.observe(replay, record) else {
            return;
        };
        let clock = &self.clock;
        self.ends.retain(|(of, _), _| clock.follows(*of));
        for device in replay.devices.keys() {
            let has_tensors = replay.levels.contains_key(&(*device, Level::TENSOR));
            let level = match has_tensors {
                true => Level::TENSOR,
                false => Level::DRIVER,
            };
            let now = replay.counters(*device, level);
            let mut live = Figure {
                bytes: now.live,
                blocks: now.allocations.saturating_sub(now.frees),
            };
            // The block with which the next round of a loop begins is not of this one.
            if let Record::Event(_, event) = record
                && (event.kind, event.device, event.level) == (EventKind::ALLOC, *device, level)
            {
                live -= Figure::block(event.bytes);
            }
            let ends = self.ends.entry((of, *device)).or_default();
            if ends.len() == ROUNDS {
                ends.pop_front();
            }
            ends.push_back((round, live));
        }
    }

    /// The growth on a device; `None` if too few rounds have ended.
    pub fn of(&self, device: DeviceOrdinal) -> Option<Growth> {
        let ends = self.ends.get(&(self.clock.choose()?, device))?;
        let series: Vec<_> = ends.iter().copied().collect();
        (series.len() >= LEAST).then(|| Growth::of(&series))
    }
}

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

#[cfg(test)]
mod tests {
    use gpumem_analyzer::replay::At;
    use gpumem_capture::{Event, Seq};

    use super::*;

    /// The growth after steps that allocate this much each.
    fn growth(steps: impl Iterator<Item = u64>) -> Option<Growth> {
        let (mut replay, mut growth) = (Replay::new(At::End), LiveGrowth::default());
        let step = |bytes| {
            let event = |kind| Event {
                kind,
                level: Level::DRIVER,
                device: DeviceOrdinal(0),
                ..Event::default()
            };
            let block = Event {
                bytes,
                ..event(EventKind::ALLOC)
            };
            [block, event(EventKind::STEP)]
        };
        for (seq, mut event) in (1..).zip(steps.flat_map(step)) {
            event.ptr = seq << 32;
            let record = Record::Event(Seq(seq), &event);
            replay.feed(record);
            growth.observe(&replay, record);
        }
        growth.of(DeviceOrdinal(0))
    }

    #[test]
    fn the_newest_steps_count() {
        let even = growth((0..100).map(|step| 7 * u64::from(step > 50))).expect("growth");
        assert!(even.is_growth && even.range == (7, 7), "{even:?}");
        let ended = growth((0..100).map(|step| 7 * u64::from(step < 50))).expect("growth");
        assert!(!ended.is_growth && ended.per_round == 0, "{ended:?}");
        assert_eq!(growth(0..3), None);
    }
}

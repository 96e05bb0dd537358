//! The growth of live memory from step to step of a training.

use std::collections::{BTreeMap, VecDeque};

use gpumem_analyzer::replay::Replay;
use gpumem_capture::{DeviceOrdinal, Level};

/// The number of newest steps that count.
const STEPS: usize = 32;
/// With fewer steps, the training is in its warm-up.
const LEAST: usize = 4;

/// The live bytes at the ends of the last 32 steps: of tensors, or of CUDA's memory without tensors.
///
/// The growth is the median of the slopes between any two of them. So caches that come and go, a longer batch and an
/// evaluation do not count.
#[derive(Clone, Debug, Default)]
pub struct StepGrowth {
    steps: u64,
    ends: BTreeMap<DeviceOrdinal, VecDeque<(u64, u64)>>,
}

impl StepGrowth {
    /// Takes in the live bytes if a step has ended.
    pub(crate) fn observe(&mut self, replay: &Replay) {
        if replay.spans.steps == self.steps {
            return;
        }
        self.steps = replay.spans.steps;
        for (device, on) in &replay.devices {
            let live = match replay.levels.contains_key(&(*device, Level::TENSOR)) {
                true => on.now.tensor,
                false => on.now.driver,
            };
            let ends = self.ends.entry(*device).or_default();
            if ends.len() == STEPS {
                ends.pop_front();
            }
            ends.push_back((self.steps, live));
        }
    }

    /// Bytes per step; `None` if too few steps have ended.
    pub fn of(&self, device: DeviceOrdinal) -> Option<i64> {
        let ends = self.ends.get(&device).filter(|ends| ends.len() >= LEAST)?;
        let mut slopes = Vec::with_capacity(ends.len() * ends.len() / 2);
        for (at, (step, live)) in ends.iter().enumerate() {
            for (later, then) in ends.iter().skip(at + 1) {
                let grown = i128::from(*then) - i128::from(*live);
                slopes.push((grown / i128::from((later - step).max(1))) as i64);
            }
        }
        let middle = slopes.len() / 2;
        Some(*slopes.select_nth_unstable(middle).1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn growth(live: impl Iterator<Item = u64>) -> Option<i64> {
        let ends = (1..).zip(live).collect();
        let all = BTreeMap::from([(DeviceOrdinal(0), ends)]);
        let of = StepGrowth {
            steps: 0,
            ends: all,
        };
        of.of(DeviceOrdinal(0))
    }

    #[test]
    fn a_leak_is_its_bytes_a_step_and_a_cache_is_none() {
        assert_eq!(growth((0..32).map(|step| 1000 + 7 * step)), Some(7));
        assert_eq!(growth((0..32).map(|step| 1000 + 50 * (step % 2))), Some(0));
        assert_eq!(
            growth((0..32).map(|step| 1000 + 500 * u64::from(step == 20))),
            Some(0)
        );
        assert_eq!(growth(0..3), None);
    }
}

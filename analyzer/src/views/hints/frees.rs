//! Patterns in the frees of tensors: short-lived blocks, and forwards without a backward.
//!
//! A graph that is dropped unused frees its activations one after the other, without allocations in between. Without
//! a graph, each activation is freed as soon as the next one is allocated.

use gpumem_capture::{DeviceOrdinal, Event, EventKind, Phase, Seq};
use rustc_hash::{FxHashMap, FxHashSet};

use super::figures::{Figures, is_in_checkpoint, is_in_forward, newest};
use crate::replay::{Block, Figure, KeyId, Replay, ThreadPhase};

/// A block is short-lived if it is freed at most this many records after its allocation.
pub(super) const SHORT: u64 = 16;
/// This many consecutive frees count as freed together.
const TOGETHER: usize = 3;
/// The least percentage of a forward's allocations that are needed by a backward and freed together, if a graph is
/// built.
const OF_A_GRAPH: u64 = 75;

/// The facts about a stack.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    /// Whether it belongs to a forward; `None` until it is computed.
    forward: Option<bool>,
    /// Whether any of its blocks was freed after a backward had begun.
    needed: bool,
    /// Bytes that were freed without a backward since their allocation: together with others, and alone.
    together: u64,
    alone: u64,
    short: Short,
}

/// The largest short-lived blocks of each step.
#[derive(Clone, Copy, Debug, Default)]
struct Short {
    step: u64,
    /// The largest in the current step so far.
    largest: u64,
    /// The smallest and the largest of the earlier steps; zeros without earlier steps.
    least: u64,
    most: u64,
}

impl Short {
    fn add(&mut self, step: u64, bytes: u64) {
        if step != self.step {
            (self.least, self.most) = self.range();
            (self.step, self.largest) = (step, 0);
        }
        self.largest = self.largest.max(bytes);
    }

    fn range(&self) -> (u64, u64) {
        match (self.largest, self.least) {
            (0, _) => (self.least, self.most),
            (largest, 0) => (largest, largest),
            (largest, least) => (least.min(largest), self.most.max(largest)),
        }
    }
}

#[derive(Debug, Default)]
struct OnDevice {
    /// By the number of the stack.
    tallies: Vec<Tally>,
    /// Consecutive frees that no backward needed.
    run: Vec<(KeyId, u64)>,
    /// The run with most bytes.
    largest: (u64, FxHashMap<KeyId, Figure>),
    /// The peak so far, and the short-lived blocks that were live then.
    spike: (Seq, Vec<(KeyId, u64)>),
}

/// Follows the frees of tensors.
#[derive(Debug, Default)]
pub(super) struct Frees {
    devices: FxHashMap<DeviceOrdinal, OnDevice>,
    /// The start of the last backward.
    backward: Seq,
    /// Whether an allocation failed and none succeeded since.
    unwinds: bool,
}

/// Short-lived blocks at a device's peak whose size changes from step to step.
pub(super) struct Spikes {
    /// The smallest and the largest of them over all steps.
    pub range: (u64, u64),
    /// By stack.
    pub figures: Figures,
}

impl Frees {
    /// Observes a mark of a phase.
    pub fn mark(&mut self, seq: Seq, event: &Event) {
        if event.kind == EventKind::PHASE_BEGIN && event.aux == Phase::BACKWARD.0 {
            self.backward = seq;
            self.devices.values_mut().for_each(OnDevice::end_run);
        }
    }

    /// An allocation failed: what an exception frees on its way is no evidence.
    pub fn failed(&mut self) {
        self.devices.values_mut().for_each(OnDevice::end_run);
        self.unwinds = true;
    }

    /// A tensor was allocated.
    #[inline]
    pub fn came(&mut self, device: DeviceOrdinal) {
        self.unwinds = false;
        if let Some(on) = self.devices.get_mut(&device)
            && !on.run.is_empty()
        {
            on.end_run();
        }
    }

    /// A tensor was freed.
    pub fn went(&mut self, replay: &Replay, seq: Seq, device: DeviceOrdinal, mut block: Block) {
        let on = self.devices.entry(device).or_default();
        // Blocks of the last step may have been allocated after its optimizer's step.
        if replay.stacks(block.key).purpose.is_after_training() {
            block.key = replay.key_of_all_categories(block.key);
        }
        let at = block.key.0 as usize;
        if on.tallies.len() <= at {
            on.tallies
                .resize(replay.keys.len().max(at + 1), Tally::default());
        }
        let tally = &mut on.tallies[at];
        if seq.0.saturating_sub(block.seq.0) <= SHORT {
            tally.short.add(replay.spans.steps, block.bytes);
            let peak = replay.devices.get(&device).and_then(|on| on.moment);
            if let Some((peak, _)) = peak.filter(|(peak, _)| *peak >= block.seq) {
                if on.spike.0 != peak {
                    on.spike = (peak, Vec::new());
                }
                on.spike.1.push((block.key, block.bytes));
            }
        }
        let forward = *tally.forward.get_or_insert_with(|| {
            let stacks = replay.stacks(block.key);
            stacks.purpose.phase() == ThreadPhase::Outside
                && !stacks.purpose.is_no_grad()
                && is_in_forward(&replay.names, stacks.py)
                && !is_in_checkpoint(&replay.names, stacks.py)
        });
        if self.unwinds {
            return;
        }
        if forward && block.seq < self.backward {
            tally.needed = true;
        } else if forward {
            on.run.push((block.key, block.bytes));
        }
    }

    /// Short-lived blocks at a device's peak that are at least twice as large in one step as in another.
    pub fn spikes(&self, replay: &Replay, device: DeviceOrdinal) -> Option<Spikes> {
        let on = self.devices.get(&device)?;
        let (peak, _) = replay.devices.get(&device)?.moment?;
        if on.spike.0 != peak {
            return None;
        }
        let mut figures = FxHashMap::default();
        let mut range = (u64::MAX, 0);
        for (key, bytes) in &on.spike.1 {
            let (least, most) = on.tallies[key.0 as usize].short.range();
            if least > 0 && most / 2 >= least {
                add(figures.entry(*key).or_default(), *bytes);
                range = (range.0.min(least), range.1.max(most));
            }
        }
        let figures = named(replay, &figures);
        (!figures.is_empty()).then_some(Spikes { range, figures })
    }

    /// The largest run of frees on a device of memory that forwards had allocated and no backward used. Only for
    /// programs that train, if most memory that a backward would need was freed together.
    pub fn unused(&self, replay: &Replay, device: DeviceOrdinal) -> Figures {
        let Some(on) = self.devices.get(&device).filter(|_| replay.spans.trains) else {
            return Figures::new();
        };
        // The same layer has different stacks in validation and training, but the same newest line.
        let line = |at: usize| newest(&replay.names, replay.stacks(KeyId(at as u32)).py);
        let all = || on.tallies.iter().enumerate();
        let needed = all().filter(|(_, tally)| tally.needed);
        let needed: FxHashSet<_> = needed.map(|(at, _)| line(at)).collect();
        let (mut together, mut alone) = (0_u64, 0_u64);
        for (at, tally) in all().filter(|(_, tally)| tally.forward == Some(true)) {
            if needed.contains(&line(at)) {
                together += tally.together;
                alone += tally.alone;
            }
        }
        let sum = u128::from(together) + u128::from(alone);
        if u128::from(together) * 100 < sum * u128::from(OF_A_GRAPH) {
            return Figures::new();
        }
        named(replay, &on.largest.1)
    }

    /// Ends the last runs, after all records.
    pub fn finish(&mut self) {
        self.devices.values_mut().for_each(OnDevice::end_run);
    }
}

impl OnDevice {
    /// Ends a run, because an event other than a free follows.
    fn end_run(&mut self) {
        let together = self.run.len() >= TOGETHER;
        for (key, bytes) in &self.run {
            let tally = &mut self.tallies[key.0 as usize];
            let figure = match together {
                true => &mut tally.together,
                false => &mut tally.alone,
            };
            *figure = figure.saturating_add(*bytes);
        }
        let sum: u64 = self.run.iter().map(|(_, bytes)| bytes).sum();
        if together && sum > self.largest.0 {
            self.largest = (sum, FxHashMap::default());
            for (key, bytes) in &self.run {
                add(self.largest.1.entry(*key).or_default(), *bytes);
            }
        }
        self.run.clear();
    }
}

fn add(figure: &mut Figure, bytes: u64) {
    *figure += Figure { bytes, blocks: 1 };
}

fn named(replay: &Replay, figures: &FxHashMap<KeyId, Figure>) -> Figures {
    let figures = figures.iter();
    figures
        .map(|(key, figure)| (replay.stacks(*key), *figure))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn short(blocks: &[(u64, u64)]) -> (u64, u64) {
        let mut short = Short::default();
        for (step, bytes) in blocks {
            short.add(*step, *bytes);
        }
        short.range()
    }

    #[test]
    fn sizes_are_compared_between_steps_and_not_within_one() {
        assert_eq!(short(&[]), (0, 0));
        assert_eq!(short(&[(0, 10), (0, 90), (1, 90), (1, 10)]), (90, 90));
        assert_eq!(short(&[(1, 10), (2, 5), (2, 30), (4, 20)]), (10, 30));
    }

    #[test]
    fn only_what_goes_in_a_row_goes_together() {
        let key = KeyId(0);
        let mut on = OnDevice {
            tallies: vec![Tally::default()],
            ..OnDevice::default()
        };
        for run in [vec![1, 2], vec![10, 20, 30], vec![7; 4]] {
            on.run = run.into_iter().map(|bytes| (key, bytes)).collect();
            on.end_run();
        }
        assert_eq!((on.tallies[0].together, on.tallies[0].alone), (60 + 28, 3));
        let largest = Figure {
            bytes: 60,
            blocks: 3,
        };
        assert_eq!(on.largest.0, 60);
        assert_eq!(on.largest.1.get(&key), Some(&largest));
    }
}

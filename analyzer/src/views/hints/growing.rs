//! Lines whose memory grows with the steps.

use std::collections::BTreeMap;

use gpumem_capture::{DeviceOrdinal, Level};
use rustc_hash::FxHashMap;

use super::figures::{Figures, NUMBERED, is_in_forward};
use crate::attribution::Owner;
use crate::replay::{Figure, KeyId, Replay, ThreadPhase};
use crate::views::by_stack::Owners;
use crate::views::cause::graph::{Grows, holder};
use crate::views::growth::{Points, grows, slope};

/// The first step is the warm-up.
const WARM_UP: u64 = 1;

/// The bytes of tensors by stack, at the ends of some steps.
#[derive(Debug)]
pub(super) struct Growth {
    points: Points,
    ends: FxHashMap<(DeviceOrdinal, KeyId), Vec<(u64, Figure)>>,
}

/// The growth on a device.
pub(super) struct Grown {
    /// The steps between which it grew.
    pub steps: (u64, u64),
    /// The growth in each step.
    pub bytes_per_step: i64,
    /// The whole growth, by stack.
    pub figures: Figures,
}

impl Default for Growth {
    fn default() -> Self {
        Self {
            points: Points::from(WARM_UP),
            ends: FxHashMap::default(),
        }
    }
}

impl Growth {
    /// Records the end of a step.
    pub fn step(&mut self, replay: &Replay) {
        let step = replay.spans.steps;
        if !self.points.take(step) {
            return;
        }
        for ((device, level), row) in &replay.levels {
            if *level != Level::TENSOR {
                continue;
            }
            // The categories of a stack's blocks may become known between two steps.
            let mut now: FxHashMap<KeyId, Figure> = FxHashMap::default();
            for (key, figure) in row.live().filter(|(_, figure)| figure.bytes > 0) {
                *now.entry(replay.key_of_all_categories(key)).or_default() += figure;
            }
            for (key, figure) in now {
                let ends = self.ends.entry((*device, key)).or_default();
                ends.push((step, figure));
            }
        }
        if self.points.thin() {
            let points = &self.points;
            for ends in self.ends.values_mut() {
                ends.retain(|(step, _)| points.has(*step));
            }
            self.ends.retain(|_, ends| !ends.is_empty());
        }
    }

    /// The line whose tensor probably keeps growing memory of a device alive, and its live bytes: see [`holder`].
    pub fn holder(&self, replay: &Replay, device: DeviceOrdinal) -> Option<(Owner, Figure)> {
        let points = self.points.with(0);
        let rounds = points.last()?.saturating_sub(*points.first()?);
        let mut owners = Owners::new(replay, Level::TENSOR);
        let (mut all, mut figures) = (Vec::new(), Vec::new());
        for ((_, key), ends) in self.ends.iter().filter(|((of, _), _)| *of == device) {
            let at = |step: &u64| ends.binary_search_by_key(step, |(at, _)| *at);
            let bytes = |step: &u64| at(step).map_or(0, |at| ends[at].1.bytes);
            let series: Vec<_> = points.iter().map(|step| (*step, bytes(step))).collect();
            if !grows(&series) {
                continue;
            }
            all.push(Grows {
                line: owners.of(replay.stacks(*key)),
                bytes_per_round: slope(&series).max(0).unsigned_abs(),
                blocks: ends.last().map_or(0, |(_, figure)| figure.blocks),
                first: u64::from(key.0),
            });
            figures.push(ends.last().map_or(Figure::default(), |(_, figure)| *figure));
        }
        let found = holder(&all, rounds)?;
        let own = all.iter().zip(figures);
        let own = own.filter(|(of, _)| of.line == found.line);
        let own = own.fold(Figure::default(), |mut sum, (_, figure)| {
            sum += figure;
            sum
        });
        Some((found.line.clone(), own))
    }

    /// The lines of a device that grew up to the last step. `graphs`: whether the lines are those in functions named
    /// forward of a program that builds graphs, or all others.
    pub fn of(&self, replay: &Replay, device: DeviceOrdinal, graphs: bool) -> Option<Grown> {
        let points = self.points.with(0);
        let steps = (*points.first()?, *points.last()?);
        let builds = replay.names.calls_of(NUMBERED).is_some_and(|n| n > 0);
        let mut owners = Owners::new(replay, Level::TENSOR);
        let mut lines: BTreeMap<Owner, Vec<KeyId>> = BTreeMap::new();
        for (of, key) in self.ends.keys().filter(|(of, _)| *of == device) {
            debug_assert_eq!(*of, device);
            let stacks = replay.stacks(*key);
            let is_graph = builds
                && stacks.purpose.phase() == ThreadPhase::Outside
                && is_in_forward(&replay.names, stacks.py);
            if is_graph == graphs && !stacks.purpose.is_workspace() {
                lines.entry(owners.of(stacks)).or_default().push(*key);
            }
        }
        let mut grown = Grown {
            steps,
            bytes_per_step: 0,
            figures: Vec::new(),
        };
        for keys in lines.into_values() {
            let at = |key: &KeyId, step: u64| {
                let ends = self
                    .ends
                    .get(&(device, *key))
                    .map_or(&[][..], Vec::as_slice);
                let at = ends.binary_search_by_key(&step, |(at, _)| *at);
                at.map_or(Figure::default(), |at| ends[at].1)
            };
            let sum = |step: &u64| (*step, keys.iter().map(|key| at(key, *step).bytes).sum());
            let series: Vec<(u64, u64)> = points.iter().map(sum).collect();
            if !grows(&series) {
                continue;
            }
            grown.bytes_per_step = grown.bytes_per_step.saturating_add(slope(&series));
            for key in &keys {
                let (first, last) = (at(key, steps.0), at(key, steps.1));
                let figure = Figure {
                    bytes: last.bytes.saturating_sub(first.bytes),
                    blocks: last.blocks.saturating_sub(first.blocks),
                };
                if figure.bytes > 0 {
                    grown.figures.push((replay.stacks(*key), figure));
                }
            }
        }
        (!grown.figures.is_empty()).then_some(grown)
    }
}

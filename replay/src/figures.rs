//! Figures by stack.

use gpumem_capture::{DeviceOrdinal, Level};
use rustc_hash::FxHashMap;

use crate::high_water::{Figure, Total};
use crate::ids::{KeyId, StackKey};
use crate::level_state::{Anomalies, LevelState};
use crate::query::At;
use crate::replay::Replay;
use crate::sampling::{Sampled, share_out};

/// Scales figures that were added up block by block, where stacks are sampled. Afterwards they match the estimates of
/// their stacks, at a point in time or over the whole run.
#[derive(Clone, Debug, Default)]
pub struct Scale {
    /// The figure of each stack's own blocks of all categories, and its estimate.
    by_stack: FxHashMap<StackKey, [Figure; 2]>,
}

impl Scale {
    /// Scales a figure of a stack; returns zeros for blocks without stacks, which are distributed among the others.
    pub fn of(&self, stacks: StackKey, figure: Figure) -> Figure {
        let Some([own, estimate]) = self.by_stack.get(&stacks.without_category()) else {
            return figure;
        };
        let scaled = |figure, own, estimate| match own {
            0 => figure,
            own => (u128::from(figure) * u128::from(estimate) / u128::from(own))
                .try_into()
                .unwrap_or(u64::MAX),
        };
        Figure {
            bytes: scaled(figure.bytes, own.bytes, estimate.bytes),
            blocks: scaled(figure.blocks, own.blocks, estimate.blocks),
        }
    }

    /// Scales bytes in the same way.
    pub fn bytes(&self, stacks: StackKey, bytes: u64) -> u64 {
        self.of(stacks, Figure { bytes, blocks: 0 }).bytes
    }
}

impl Replay {
    /// The scale for figures that were added up block by block: of live blocks at a point in time, or (`None`) of all
    /// allocations.
    pub fn scale(&self, device: DeviceOrdinal, level: Level, at: Option<At>) -> Scale {
        let mut by_stack = FxHashMap::default();
        let Some(state) = self
            .levels
            .get(&(device, level))
            .filter(|_| self.sampling.is_some())
        else {
            return Scale::default();
        };
        let (own, estimates): (Vec<_>, _) = match at {
            Some(At::Peak) => (
                state.at_peak().map(|(key, own, _)| (key, own)).collect(),
                self.figures(device, level, At::Peak),
            ),
            Some(at) => (state.live().collect(), self.figures(device, level, at)),
            None => {
                let totals = state.totals();
                let own = totals.map(|(key, total)| (key, allocations(total)));
                (own.collect(), self.allocated(device, level))
            }
        };
        for (key, own) in own {
            let [sum, _]: &mut [Figure; 2] = by_stack
                .entry(self.stacks(key).without_category())
                .or_default();
            *sum += own;
        }
        for (stacks, estimate) in estimates {
            let [_, sum] = by_stack.entry(stacks.without_category()).or_default();
            *sum += estimate;
        }
        Scale { by_stack }
    }

    /// Figures by stack of a level at a point in time, without zeros, in no particular order.
    pub fn figures(
        &self,
        device: DeviceOrdinal,
        level: Level,
        moment: At,
    ) -> Vec<(StackKey, Figure)> {
        let Some(state) = self.levels.get(&(device, level)) else {
            return Vec::new();
        };
        match moment {
            At::Peak => self.named(state.at_peak()),
            _ => self.named(state.live_by_stack()),
        }
    }

    /// Figures by stack of what is live now, without zeros, in no particular order. They are computed here from the live
    /// blocks, whatever the query: see [`Replay::counts_as_followed`].
    pub fn counted_figures(&self, device: DeviceOrdinal, level: Level) -> Vec<(StackKey, Figure)> {
        let Some(state) = self.levels.get(&(device, level)) else {
            return Vec::new();
        };
        let sampled = Sampled::new(self.sampling, &self.keys).at(level);
        self.named(state.counted(sampled).into_iter())
    }

    /// Whether figures computed at a point in time equal those that would have been kept up to it: each block was
    /// allocated and freed once, with the same size, and all blocks are kept individually.
    pub fn counts_as_followed(&self) -> bool {
        let is_whole = |state: &LevelState| {
            let Anomalies {
                double_allocations,
                frees_without_block,
                frees_of_other_size,
                unknown_pointers: _,
                lost_cancels,
                mismatches: _,
                reservations_of_other_size,
            } = state.anomalies;
            let odd = [
                double_allocations,
                frees_without_block,
                frees_of_other_size,
                lost_cancels,
                reservations_of_other_size,
            ];
            odd == [0; 5] && state.unkept.is_none()
        };
        self.restored.is_none() && self.levels.values().all(is_whole)
    }

    /// Figures by stack of a level at the device's peak (see [`crate::DevicePeak`]), without zeros.
    pub fn figures_at_device_peak(
        &self,
        device: DeviceOrdinal,
        level: Level,
    ) -> Vec<(StackKey, Figure)> {
        let clock = self
            .devices
            .get(&device)
            .map(|device| device.clock)
            .unwrap_or_default();
        self.levels
            .get(&(device, level))
            .map(|state| self.named(state.at_device_peak(clock)))
            .unwrap_or_default()
    }

    /// What each stack allocated over the whole run, without zeros, in no particular order. Each allocation counts.
    pub fn allocated(&self, device: DeviceOrdinal, level: Level) -> Vec<(StackKey, Figure)> {
        let state = self.levels.get(&(device, level));
        let totals = state.into_iter().flat_map(|state| state.totals_by_stack());
        self.named(
            totals.map(|(key, total, unseen)| (key, allocations(total), allocations(unseen))),
        )
    }

    /// Figures by stack with the stacks themselves; estimates where stacks were sampled.
    fn named(
        &self,
        figures: impl Iterator<Item = (KeyId, Figure, Figure)>,
    ) -> Vec<(StackKey, Figure)> {
        let mut figures: Vec<_> = figures
            .filter(|(_, figure, _)| figure.blocks > 0 || figure.bytes > 0)
            .map(|(key, figure, unseen)| (self.stacks(key), figure, unseen))
            .collect();
        if self.sampling.is_some() {
            share_out(&mut figures);
        }
        figures
            .into_iter()
            .map(|(stacks, figure, _)| (stacks, figure))
            .collect()
    }
}

fn allocations(total: Total) -> Figure {
    Figure {
        bytes: total.bytes,
        blocks: total.allocations,
    }
}

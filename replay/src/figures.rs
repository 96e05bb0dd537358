//! Figures by stack.

use gpumem_capture::{DeviceOrdinal, Level};

use crate::high_water::{Figure, Total};
use crate::ids::{KeyId, StackKey};
use crate::query::At;
use crate::replay::Replay;
use crate::sampling::share_out;

impl Replay {
    /// Figures by stack of a level at a moment, zeros left out, in no particular order.
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

    /// Figures by stack of a level at the device's peak (see [`crate::DevicePeak`]), zeros left out.
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

    /// What each stack allocated over the whole run, zeros left out, in no particular order: its blocks, each time that
    /// one was allocated.
    pub fn allocated(&self, device: DeviceOrdinal, level: Level) -> Vec<(StackKey, Figure)> {
        let figure = |total: Total| Figure {
            bytes: total.bytes,
            blocks: total.allocations,
        };
        let state = self.levels.get(&(device, level));
        let totals = state.into_iter().flat_map(|state| state.totals_by_stack());
        self.named(totals.map(|(key, total, unseen)| (key, figure(total), figure(unseen))))
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

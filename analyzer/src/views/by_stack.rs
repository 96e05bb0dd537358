//! Bytes of stacks on each device: the input of lines, trees and flamegraphs.

use gpumem_capture::{DeviceOrdinal, Level};
use rustc_hash::FxHashMap;

use super::module_of;
use crate::attribution::{Owner, library, owner};
use crate::replay::{At, Category, Figure, Replay, StackKey};

/// The requested level, or the most informative one.
pub fn level_or_default(asked: Option<Level>, replay: &Replay) -> Level {
    asked.unwrap_or_else(|| {
        let has = |level| replay.levels.keys().any(|(_, of)| *of == level);
        if has(Level::TENSOR) || !has(Level::DRIVER) {
            Level::TENSOR
        } else {
            Level::DRIVER
        }
    })
}

/// The wanted part of a level. Names are parts of names: `net.py` selects `/home/me/net.py`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Select {
    /// Only this device.
    pub device: Option<DeviceOrdinal>,
    /// Only bytes of lines in this file.
    pub file: Option<String>,
    /// Only bytes of lines in this function.
    pub function: Option<String>,
    /// Only bytes that this library requested.
    pub library: Option<String>,
    /// Only tensors of this category.
    pub category: Option<Category>,
    /// Only bytes of modules with this name and of their parts: see [`Names::module_matches`].
    ///
    /// [`Names::module_matches`]: crate::names::Names::module_matches
    pub module: Option<String>,
}

impl Select {
    /// Whether it selects everything on a device.
    pub fn is_whole(&self) -> bool {
        let names = [&self.file, &self.function, &self.library, &self.module];
        self.category.is_none() && names.iter().all(|part| part.is_none())
    }

    /// Whether it selects a device.
    pub fn takes_device(&self, device: DeviceOrdinal) -> bool {
        self.device.is_none_or(|only| only == device)
    }

    /// Whether it selects the bytes of an owner with these stacks at a level.
    pub fn takes(&self, replay: &Replay, stacks: StackKey, level: Level, owner: &Owner) -> bool {
        let line = owner.line();
        let file = |part: &String| line.is_some_and(|line| line.file.contains(part));
        let function = |part: &String| line.is_some_and(|line| line.function.contains(part));
        let of_library = |part: &String| {
            let called = stacks.caller.module();
            let modules = &replay.names.modules;
            let called = called.and_then(|index| modules.get(index as usize));
            let by_path = called.is_some_and(|module| module.path.contains(part));
            let named = || library(&replay.names, stacks, level);
            by_path || named().is_some_and(|name| name.contains(part))
        };
        let of_module = |pattern: &String| module_of::takes(&replay.names, stacks, pattern);
        let is = stacks.purpose.category();
        self.category.is_none_or(|only| only == is)
            && self.file.as_ref().is_none_or(file)
            && self.function.as_ref().is_none_or(function)
            && self.library.as_ref().is_none_or(of_library)
            && self.module.as_ref().is_none_or(of_module)
    }
}

/// Bytes of stacks on one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceStacks {
    /// The device.
    pub device: DeviceOrdinal,
    /// By stack, in no particular order.
    pub figures: Vec<(StackKey, Figure)>,
    /// The level's own figure, if the stacks must sum to it.
    pub total: Option<u64>,
}

/// Bytes of stacks at one level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ByStack {
    /// The level.
    pub level: Level,
    /// By device, in the order of their numbers.
    pub devices: Vec<DeviceStacks>,
}

impl ByStack {
    /// At a point in time. For the peak, each device has a separate one.
    pub fn at(replay: &Replay, level: Level, moment: At, select: &Select) -> Self {
        Self::of(replay, level, select, |device| {
            let figures = replay.figures(device, level, moment);
            (figures, replay.total(device, level, moment))
        })
    }

    /// Everything that was allocated during the run. A block counts each time.
    pub fn allocated(replay: &Replay, level: Level, select: &Select) -> Self {
        Self::of(replay, level, select, |device| {
            let mut figures = replay.allocated(device, level);
            figures.retain(|(_, figure)| figure.blocks > 0);
            let sum = figures.iter().map(|(_, figure)| figure.bytes).sum();
            (figures, sum)
        })
    }

    /// For one device at its peak: see [`crate::replay::DevicePeak`].
    pub fn at_device_peak(replay: &Replay, device: DeviceOrdinal, level: Level) -> Self {
        let total = replay.devices.get(&device).map_or(0, |device| match level {
            Level::TENSOR => device.at_peak.tensor,
            Level::DRIVER => device.at_peak.driver,
            _ => device.at_peak.host,
        });
        let on = DeviceStacks {
            device,
            figures: replay.figures_at_device_peak(device, level),
            total: Some(total),
        };
        Self {
            level,
            devices: vec![on],
        }
    }

    /// Calls `figures` for each device of the level and the selection.
    pub fn of(
        replay: &Replay,
        level: Level,
        select: &Select,
        mut figures: impl FnMut(DeviceOrdinal) -> (Vec<(StackKey, Figure)>, u64),
    ) -> Self {
        let rows = replay.levels.keys();
        let devices = rows
            .filter(|(device, of)| *of == level && select.takes_device(*device))
            .map(|(device, _)| *device);
        let mut owners = Owners::new(replay, level);
        let devices = devices
            .map(|device| {
                let (mut figures, total) = figures(device);
                let whole = select.is_whole() && replay.tells_all_sizes();
                if !select.is_whole() {
                    figures.retain(|(stacks, _)| {
                        let owner = owners.of(*stacks);
                        select.takes(replay, *stacks, level, &owner)
                    });
                }
                DeviceStacks {
                    device,
                    figures,
                    total: whole.then_some(total),
                }
            })
            .collect();
        Self { level, devices }
    }

    /// Keeps only these stacks. They no longer sum to the level's own figure.
    pub fn retain(&mut self, wanted: impl Fn(StackKey) -> bool) {
        for on in &mut self.devices {
            on.figures.retain(|(stacks, _)| wanted(*stacks));
            on.total = None;
        }
    }

    /// Devices whose stacks do not sum to the level's own figure: (device, sum, figure).
    pub fn mismatches(&self) -> Vec<(DeviceOrdinal, u64, u64)> {
        let mut mismatches = Vec::new();
        for on in &self.devices {
            let sum = on.figures.iter().map(|(_, figure)| figure.bytes).sum();
            if let Some(total) = on.total.filter(|total| *total != sum) {
                mismatches.push((on.device, sum, total));
            }
        }
        mismatches
    }

    /// The sum of bytes.
    pub fn bytes(&self) -> u64 {
        let figures = self.devices.iter().flat_map(|on| &on.figures);
        figures.map(|(_, figure)| figure.bytes).sum()
    }
}

/// Owners by stacks, each computed once.
pub struct Owners<'a> {
    replay: &'a Replay,
    level: Level,
    known: FxHashMap<StackKey, Owner>,
}

impl<'a> Owners<'a> {
    /// For a level.
    pub fn new(replay: &'a Replay, level: Level) -> Self {
        Self {
            replay,
            level,
            known: FxHashMap::default(),
        }
    }

    /// The owner of the bytes of these stacks.
    pub fn of(&mut self, stacks: StackKey) -> Owner {
        let (replay, level) = (self.replay, self.level);
        self.known
            .entry(stacks)
            .or_insert_with(|| owner(&replay.names, stacks, level))
            .clone()
    }
}

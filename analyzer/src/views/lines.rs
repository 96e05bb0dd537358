//! Bytes by the line that owns them.

use std::collections::BTreeMap;

use gpumem_capture::{DeviceOrdinal, Level};
use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::attribution::{Owner, owner};
use crate::replay::{Figure, Moment, Replay, StackKey};

/// One line's share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LineRow {
    /// Device ordinal; `None` for memory of no device.
    pub device: Option<u8>,
    /// File as the interpreter has it; `None` where no Python line owns the bytes.
    pub file: Option<String>,
    /// Line number.
    pub line: Option<u32>,
    /// Function.
    pub function: Option<String>,
    /// Bytes.
    pub bytes: u64,
    /// Blocks.
    pub blocks: u64,
    /// The library that allocated, where no Python line owns the bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub library: Option<String>,
    /// The owner itself.
    #[serde(skip)]
    pub owner: Owner,
}

/// All lines of a level at a moment, largest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lines {
    /// Which level.
    pub level: Level,
    /// The lines.
    pub rows: Vec<LineRow>,
    /// For each device the level's own figure, where the rows do not sum to it: (device, sum, figure).
    pub mismatches: Vec<(DeviceOrdinal, u64, u64)>,
}

impl Lines {
    /// Lines of a level at a moment; at the peak each device is at its own.
    pub fn at(replay: &Replay, level: Level, moment: Moment) -> Self {
        let mut lines = Self {
            level,
            rows: Vec::new(),
            mismatches: Vec::new(),
        };
        let devices = replay
            .rows
            .keys()
            .filter(|(_, of)| *of == level)
            .map(|(device, _)| *device);
        for device in devices {
            let figures = replay.figures(device, level, moment);
            lines.add(
                replay,
                device,
                &figures,
                replay.total(device, level, moment),
            );
        }
        lines.sort();
        lines
    }

    /// Lines of a level of one device at the device's peak: see [`crate::replay::DevicePeak`].
    pub fn at_device_peak(replay: &Replay, device: DeviceOrdinal, level: Level) -> Self {
        let mut lines = Self {
            level,
            rows: Vec::new(),
            mismatches: Vec::new(),
        };
        let figures = replay.figures_at_device_peak(device, level);
        let total = replay.devices.get(&device).map_or(0, |device| match level {
            Level::TENSOR => device.at_peak.tensor,
            Level::DRIVER => device.at_peak.driver,
            _ => device.at_peak.host,
        });
        lines.add(replay, device, &figures, total);
        lines.sort();
        lines
    }

    fn add(
        &mut self,
        replay: &Replay,
        device: DeviceOrdinal,
        figures: &[(StackKey, Figure)],
        total: u64,
    ) {
        let mut owners = Owners::new(replay, self.level);
        let mut by_owner: BTreeMap<Owner, Figure> = BTreeMap::new();
        for (stacks, figure) in figures {
            *by_owner.entry(owners.of(*stacks)).or_default() += *figure;
        }
        let sum = by_owner.values().map(|figure| figure.bytes).sum();
        if sum != total {
            self.mismatches.push((device, sum, total));
        }
        self.rows.extend(
            by_owner
                .into_iter()
                .map(|(owner, figure)| row(device, owner, figure)),
        );
    }

    fn sort(&mut self) {
        self.rows.sort_by(|a, b| {
            (b.bytes, b.blocks, a.device, &a.owner).cmp(&(a.bytes, a.blocks, b.device, &b.owner))
        });
    }

    /// Bytes over all rows.
    pub fn bytes(&self) -> u64 {
        self.rows.iter().map(|row| row.bytes).sum()
    }
}

fn row(device: DeviceOrdinal, owner: Owner, figure: Figure) -> LineRow {
    let line = match &owner {
        Owner::Line(line) => Some(line.clone()),
        _ => None,
    };
    LineRow {
        device: (device != DeviceOrdinal::NONE).then_some(device.0),
        file: line.as_ref().map(|line| line.file.clone()),
        line: line.as_ref().map(|line| line.line),
        function: line.map(|line| line.function),
        bytes: figure.bytes,
        blocks: figure.blocks,
        library: owner.library(),
        owner,
    }
}

/// Owners by stacks, each worked out once.
struct Owners<'a> {
    replay: &'a Replay,
    level: Level,
    known: FxHashMap<StackKey, Owner>,
}

impl<'a> Owners<'a> {
    fn new(replay: &'a Replay, level: Level) -> Self {
        Self {
            replay,
            level,
            known: FxHashMap::default(),
        }
    }

    fn of(&mut self, stacks: StackKey) -> Owner {
        let (replay, level) = (self.replay, self.level);
        self.known
            .entry(stacks)
            .or_insert_with(|| owner(&replay.names, stacks, level))
            .clone()
    }
}

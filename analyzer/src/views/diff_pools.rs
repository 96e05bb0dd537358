//! PyTorch's pools in two captures.

use gpumem_capture::DeviceOrdinal;
use schemars::JsonSchema;
use serde::Serialize;

use crate::replay::Replay;

/// PyTorch's pool on one device, in two captures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PoolDiff {
    /// Device ordinal.
    pub device: u8,
    /// The most bytes that the pool had reserved at any time of the run.
    pub reserved_peak: FigureDiff,
    /// Reserved but unallocated bytes of the pool when live tensors on the device were at their peak, up to the point
    /// in time if it is not the peak itself.
    pub unused_at_peak: FigureDiff,
}

/// A number of bytes in two captures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FigureDiff {
    /// Bytes in the first capture; 0 if it has no pool on the device.
    pub before_bytes: u64,
    /// Bytes in the second capture; 0 if it has no pool on the device.
    pub after_bytes: u64,
    /// `after_bytes` less `before_bytes`.
    pub change_bytes: i64,
}

impl FigureDiff {
    fn of(figure: impl Fn(&Replay) -> u64, [before, after]: [&Replay; 2]) -> Self {
        let (before, after) = (figure(before), figure(after));
        Self {
            before_bytes: before,
            after_bytes: after,
            change_bytes: after.wrapping_sub(before).cast_signed(),
        }
    }
}

impl PoolDiff {
    /// Compares the pools of each device that has one in either capture. `only` selects a device.
    pub fn all(before: &Replay, after: &Replay, only: Option<DeviceOrdinal>) -> Vec<Self> {
        let both = [before, after];
        let mut devices: Vec<DeviceOrdinal> = both
            .iter()
            .flat_map(|replay| &replay.devices)
            .filter(|(_, device)| device.reserved_peak > 0)
            .map(|(device, _)| *device)
            .filter(|device| only.is_none_or(|only| only == *device))
            .collect();
        devices.sort_unstable();
        devices.dedup();
        let row = |device: DeviceOrdinal| {
            let reserved = |replay: &Replay| {
                let peak = replay.devices.get(&device);
                peak.map_or(0, |peak| peak.reserved_peak)
            };
            let unused = |replay: &Replay| {
                let peak = replay.devices.get(&device).map(|peak| peak.at_peak);
                peak.map_or(0, |at| at.reserved.unwrap_or(0).saturating_sub(at.tensor))
            };
            Self {
                device: device.0,
                reserved_peak: FigureDiff::of(reserved, both),
                unused_at_peak: FigureDiff::of(unused, both),
            }
        };
        devices.into_iter().map(row).collect()
    }
}

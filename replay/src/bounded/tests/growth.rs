//! Growth of contexts and modules after peaks, and states from before it was kept.

use super::*;
use crate::later_growth::Growth;

/// A growth with the stacks that its key stands for.
pub fn named(growth: &Growth, replay: &Replay) -> (Growth, StackKey) {
    let key = KeyId::default();
    (Growth { key, ..*growth }, replay.stacks(growth.key))
}

/// The kept growth of contexts and modules after a device's peak, up to a reading.
pub fn growth_of(
    replay: &Replay,
    device: DeviceOrdinal,
    until: Option<&(crate::Reading, bool)>,
) -> Vec<(Growth, StackKey)> {
    let all = replay.growth_after_peak_of(device).iter();
    all.filter(|growth| until.is_none_or(|(reading, _)| growth.seq < reading.seq))
        .map(|growth| named(growth, replay))
        .collect()
}

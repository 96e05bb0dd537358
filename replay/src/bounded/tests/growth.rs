//! What contexts and modules grew by after peaks, and states of before that was kept.

use super::*;
use crate::later_growth::Growth;

/// A growth with the stacks that its key stands for.
pub fn named(growth: &Growth, replay: &Replay) -> (Growth, StackKey) {
    let key = KeyId::default();
    (Growth { key, ..*growth }, replay.stacks(growth.key))
}

/// What was kept of what contexts and modules grew by after a device's peak, up to a reading.
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

#[test]
fn a_state_of_version_1_has_all_but_the_growth_after_peaks() {
    let program = Program::with(3, 3000, true);
    let mut all = BoundedReplay::default();
    program.feed(&mut all.replay, Seq(0), program.end());
    let mut state = bytes_of(&all.replay);
    let mut added = Vec::new();
    all.replay.newest_begun.put(&mut added);
    for of in all
        .replay
        .peak_snapshots
        .iter()
        .flat_map(|all| all.values())
    {
        of.later.put(&mut added);
        of.newest_begun.put(&mut added);
    }
    assert!(state.ends_with(&added) && added.len() > 10);
    state.truncate(state.len() - added.len());
    state[0] = 1;
    let mut replay = Replay::new(At::Peak);
    replay.feed(Record::State(program.end(), &state));
    assert!(replay.restored.is_some_and(|restored| restored.is_readable));
    assert_eq!(figures(&replay, At::Peak), figures(&all.replay, At::Peak));
    assert!(replay.growth_after_peak_of(DeviceOrdinal(0)).is_empty());
}

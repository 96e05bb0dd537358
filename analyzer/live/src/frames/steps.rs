//! The figures that are computed at the ends of a training's steps.

use gpumem_analyzer::replay::Replay;
use gpumem_capture::Record;

use super::growth::LiveGrowth;
use super::pace::StepEnds;

/// The times of the ends of steps, and the live memory at the ends of steps or rounds.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    pub(crate) ends: StepEnds,
    pub(crate) growth: LiveGrowth,
}

impl Steps {
    /// Takes in a record after the replay took it in.
    pub(crate) fn observe(&mut self, replay: &Replay, record: &Record<'_>) {
        self.ends.observe(record);
        self.growth.observe(replay, *record);
    }
}

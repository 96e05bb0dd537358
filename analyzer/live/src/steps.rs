//! What the ends of a training's steps tell.

use gpumem_analyzer::replay::Replay;
use gpumem_capture::Record;

use crate::growth::StepGrowth;
use crate::pace::StepEnds;

/// When steps ended, and what was live then.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    pub(crate) ends: StepEnds,
    pub(crate) growth: StepGrowth,
}

impl Steps {
    /// Takes in a record that the replay has been fed.
    pub(crate) fn observe(&mut self, replay: &Replay, record: &Record<'_>) {
        self.ends.observe(record);
        self.growth.observe(replay);
    }
}

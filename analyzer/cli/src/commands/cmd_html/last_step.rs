//! Finds what is live at the end of the last step, and how old it is, in a reading that continues to the end: the
//! figures of `leaks`.

use gpumem_analyzer::replay::{At, Effect, Replay, Sizes};
use gpumem_analyzer::views::{
    AskedLeaks, LEAST_STEPS, Leaks, Select, Survivors, WARM_UP_STEPS, level_or_default,
};
use gpumem_capture::Record;

/// Leaks, with their event and its time.
pub type LeaksThen = (Leaks, (u64, u64));

/// Follows a capture that has been read once.
pub struct LastStep {
    survivors: Survivors,
    /// The last step; `None`: the point in time is the end of the capture.
    step: Option<u64>,
    found: Option<LeaksThen>,
}

impl LastStep {
    /// `first` has read the capture.
    pub fn of(first: &Replay) -> Self {
        let steps = first.spans.steps;
        let is_kept = first.can_answer(At::Step(steps).into());
        Self {
            survivors: Survivors::new(AskedLeaks {
                level: level_or_default(None, first),
                // The query ends at the capture's end, because the replay has not advanced yet when the step ends.
                moment: At::End,
                sizes: Sizes::default(),
                select: Select::default(),
                least_steps: LEAST_STEPS,
                warm_up_steps: WARM_UP_STEPS,
            }),
            step: (steps > 0 && is_kept).then_some(steps),
            found: None,
        }
    }

    /// Takes in a record after the replay took it in.
    pub fn observe(&mut self, replay: &Replay, record: Record<'_>, effect: Effect) {
        if self.found.is_some() {
            return;
        }
        self.survivors.observe(replay, record, effect);
        if self.step.is_some_and(|step| replay.spans.steps >= step) {
            self.found = Some(self.then(replay));
        }
    }

    /// What was live; `None` if the level never held anything. Call it after all records.
    pub fn finish(mut self, replay: &Replay) -> Option<LeaksThen> {
        let found = self.found.take().unwrap_or_else(|| self.then(replay));
        (!found.0.rows.is_empty()).then_some(found)
    }

    fn then(&self, replay: &Replay) -> LeaksThen {
        let at = (replay.last_seq.0, replay.last.0);
        (self.survivors.leaks(replay), at)
    }
}

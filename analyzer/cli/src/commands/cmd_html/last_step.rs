//! What is alive at the end of the last step, with how old it is, out of a reading that goes on to the end: the figures
//! of `leaks`.

use gpumem_analyzer::replay::{At, Effect, Replay, Sizes};
use gpumem_analyzer::views::{
    AskedLeaks, LEAST_STEPS, Leaks, Select, Survivors, WARM_UP_STEPS, level_or_default,
};
use gpumem_capture::Record;

/// Leaks, with the event after which they were and its time.
pub type LeaksThen = (Leaks, (u64, u64));

/// Follows a capture that has been read once.
pub struct LastStep {
    survivors: Survivors,
    /// The last step; `None`: the end of the capture is the moment.
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
                // The replay that is shown has not gone on when the step ends.
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

    /// Takes in a record after the replay has.
    pub fn observe(&mut self, replay: &Replay, record: Record<'_>, effect: Effect) {
        if self.found.is_some() {
            return;
        }
        self.survivors.observe(replay, record, effect);
        if self.step.is_some_and(|step| replay.spans.steps >= step) {
            self.found = Some(self.then(replay));
        }
    }

    /// What was alive, once all has been read; `None`: the level never held anything.
    pub fn finish(mut self, replay: &Replay) -> Option<LeaksThen> {
        let found = self.found.take().unwrap_or_else(|| self.then(replay));
        (!found.0.rows.is_empty()).then_some(found)
    }

    fn then(&self, replay: &Replay) -> LeaksThen {
        let at = (replay.last_seq.0, replay.last.0);
        (self.survivors.leaks(replay), at)
    }
}

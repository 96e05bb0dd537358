//! What is live at the end of the last step or round, and how old it is, in a reading that continues to the end: the
//! figures of `leaks`.

use gpumem_capture::{Record, Seq};
use gpumem_judge::LoopRounds;

use super::by_stack::{Select, level_or_default};
use super::leaks::{LEAST_STEPS, Leaks, WARM_UP_STEPS};
use super::survivors::{AskedLeaks, Survivors};
use crate::replay::{At, Effect, Query, Replay, Sizes};

/// The end of the last step, or of the last round of a loop. If it has neither, the failure that ended the program, or
/// the end of the capture, also if a bounded capture no longer has that point.
pub fn last_round(first: &Replay, rounds: Option<&LoopRounds>) -> At {
    let steps = first.spans.steps;
    let last = match rounds.and_then(LoopRounds::last) {
        Some(last) => At::Event(last),
        None if steps > 0 => At::Step(steps),
        None => match first.main_failure().filter(|_| is_empty(first)) {
            Some((_, failure)) => At::Event(failure.seq),
            None => At::End,
        },
    };
    match first.can_answer(Query::from(last)) {
        true => last,
        false => At::End,
    }
}

/// Whether all memory of the level that is shown by default has been freed.
fn is_empty(replay: &Replay) -> bool {
    let shown = level_or_default(None, replay);
    let mut rows = replay.levels.keys().filter(|(_, level)| *level == shown);
    rows.all(|(device, level)| replay.counters(*device, *level).live == 0)
}

/// Leaks, with their event and its time.
pub type LeaksThen = (Leaks, (u64, u64));

/// Follows a capture that has been read once.
pub struct LastRound {
    survivors: Survivors,
    moment: At,
    leaks: Option<LeaksThen>,
}

impl LastRound {
    /// `first` has read the capture; `rounds` are those of its loop if it has no steps.
    pub fn of(first: &Replay, rounds: Option<LoopRounds>) -> Self {
        Self {
            moment: last_round(first, rounds.as_ref()),
            survivors: Survivors::new(AskedLeaks {
                level: level_or_default(None, first),
                // The query ends at the capture's end, because the replay has not advanced yet when the round ends.
                moment: At::End,
                sizes: Sizes::default(),
                select: Select::default(),
                least_steps: LEAST_STEPS,
                warm_up_steps: WARM_UP_STEPS,
                rounds,
            }),
            leaks: None,
        }
    }

    /// Takes in a record after the replay took it in.
    pub fn observe(&mut self, replay: &Replay, record: Record<'_>, effect: Effect) {
        if self.leaks.is_some() {
            return;
        }
        self.survivors.observe(replay, record, effect);
        let is_last = match (self.moment, record) {
            (At::Step(step), _) => replay.spans.steps >= step,
            (At::Event(Seq(last)), Record::Event(Seq(seq), _)) => seq >= last,
            _ => false,
        };
        if is_last {
            self.leaks = Some(self.then(replay));
        }
    }

    /// What was live; `None` if the level never held anything. Call it after all records.
    pub fn finish(mut self, replay: &Replay) -> Option<LeaksThen> {
        let leaks = self.leaks.take().unwrap_or_else(|| self.then(replay));
        (!leaks.0.rows.is_empty()).then_some(leaks)
    }

    fn then(&self, replay: &Replay) -> LeaksThen {
        let at = (replay.last_seq.0, replay.last.0);
        (self.survivors.leaks(replay), at)
    }
}

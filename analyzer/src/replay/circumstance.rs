//! What the program was at when something happened: its step, its phase, its range.

use gpumem_capture::ThreadId;
use serde::Serialize;

use super::course::{Course, Phase, Stage};
use super::{Replay, StackKey};
use crate::attribution::is_in_closure;
use crate::names::Names;

/// As the replay sees it at the event itself: what it means is known at the capture's end only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Circumstance {
    /// Steps that had ended.
    pub steps: u64,
    /// The event's stacks, and what it was for.
    pub stacks: StackKey,
    /// The innermost range.
    pub range: Option<u32>,
}

/// The same, for people and programs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct When {
    /// The number of the step, from 1; `None` if the capture has no steps.
    pub step: Option<u64>,
    /// The phase; `None`: not known, or of no training.
    pub phase: Option<Phase>,
    /// The name of the innermost range that the program was in.
    pub range: Option<String>,
}

impl Circumstance {
    /// That of an event with these stacks on this thread.
    pub(super) fn at(names: &Names, course: &Course, stacks: StackKey, thread: ThreadId) -> Self {
        let backward = names.backwards.contains_key(&stacks.py);
        Self {
            steps: course.steps,
            stacks,
            range: course.range(thread, backward),
        }
    }
}

impl Replay {
    /// The circumstance of the newest event.
    pub fn circumstance(&self) -> Circumstance {
        let (key, thread) = self.newest.unwrap_or_default();
        Circumstance::at(&self.names, &self.course, self.stacks(key), thread)
    }

    /// What a circumstance means, after all records.
    pub fn when(&self, circumstance: Circumstance) -> When {
        let names = &self.names;
        When {
            step: (self.course.steps > 0).then(|| circumstance.steps.saturating_add(1)),
            phase: self.phase(circumstance.stacks),
            range: circumstance
                .range
                .and_then(|range| names.ranges.get(&range).cloned()),
        }
    }

    /// The phase that an allocation was made in, after all records. A thread's own marks come first;
    /// then what a node of autograd's allocated is of the backward; all else of a training is of the
    /// forward. An optimizer that runs the program's closure is not what allocates in that.
    pub fn phase(&self, stacks: StackKey) -> Option<Phase> {
        let names = &self.names;
        let outside = self.course.trains.then_some(Phase::Forward);
        match stacks.work.stage() {
            Stage::Backward => Some(Phase::Backward),
            Stage::Optimizer if is_in_closure(names, stacks.py) => outside,
            Stage::Optimizer => Some(Phase::Optimizer),
            Stage::ZeroGrad => Some(Phase::ZeroGrad),
            Stage::Outside if names.backwards.contains_key(&stacks.py) => Some(Phase::Backward),
            // What stack it is, the capture does not say.
            Stage::Outside if !names.has_python(stacks.py) => None,
            Stage::Outside => outside,
            Stage::Beside | Stage::Other => None,
        }
    }
}

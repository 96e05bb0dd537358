//! Steps and phases over time, bucket by bucket.

use gpumem_capture::{Event, EventKind, Seq, ThreadId};
use rustc_hash::FxHashMap;

use super::axis::{Axis, BUCKETS};
use crate::replay::{Replay, ThreadPhase};

/// Backward, an optimizer's step, zeroing, phases of no known kind.
pub(super) const PHASES: usize = 4;

/// What happened in one bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Slice {
    /// Time in each phase, ns.
    pub phases: [u64; PHASES],
    /// The last step that ended, when and at which event; 0: none did.
    pub step: u64,
    pub step_time: u64,
    pub step_seq: Seq,
    /// How many ended.
    pub steps: u64,
}

/// Follows the marks.
#[derive(Debug, Default)]
pub(super) struct CourseTrack {
    pub slices: Vec<Slice>,
    /// Threads that are in a phase.
    threads: FxHashMap<ThreadId, usize>,
    since: u64,
}

fn phase(of: ThreadPhase) -> Option<usize> {
    match of {
        ThreadPhase::Backward => Some(0),
        ThreadPhase::Optimizer => Some(1),
        ThreadPhase::ZeroGrad => Some(2),
        ThreadPhase::Other => Some(3),
        ThreadPhase::Outside | ThreadPhase::Beside => None,
    }
}

impl CourseTrack {
    /// Takes in a mark after the replay has.
    pub fn mark(&mut self, replay: &Replay, seq: Seq, event: &Event, axis: &Axis) {
        match event.kind {
            EventKind::STEP => {
                let slice = self.slice(axis.current());
                slice.step = replay.spans.steps;
                slice.step_time = axis.now();
                slice.step_seq = seq;
                slice.steps += 1;
            }
            EventKind::PHASE_BEGIN | EventKind::PHASE_END => {
                self.spend(axis);
                match phase(replay.spans.marked(event.thread)) {
                    Some(phase) => drop(self.threads.insert(event.thread, phase)),
                    None => drop(self.threads.remove(&event.thread)),
                }
            }
            _ => {}
        }
    }

    fn slice(&mut self, index: u32) -> &mut Slice {
        let index = index.min(BUCKETS - 1) as usize;
        if self.slices.len() <= index {
            self.slices.resize(index + 1, Slice::default());
        }
        &mut self.slices[index]
    }

    /// The time since the last mark goes to the phase that the process was in: of more threads, the first
    /// in the order of the phases.
    fn spend(&mut self, axis: &Axis) {
        let (mut from, now) = (self.since.max(axis.start()), axis.now());
        self.since = now;
        let Some(phase) = self.threads.values().min().copied() else {
            return;
        };
        while from < now {
            let index = axis.index(from);
            let end = match index + 1 {
                BUCKETS => now,
                next => axis.begin(next).min(now),
            };
            self.slice(index).phases[phase] += end - from;
            from = end;
        }
    }

    /// The buckets become twice as wide.
    pub fn merge(&mut self) {
        let pairs = self.slices.chunks(2).map(|pair| {
            let mut out = pair[0];
            if let Some(later) = pair.get(1) {
                for (phase, more) in out.phases.iter_mut().zip(later.phases) {
                    *phase += more;
                }
                out.steps += later.steps;
                if later.steps > 0 {
                    out.step = later.step;
                    out.step_time = later.step_time;
                    out.step_seq = later.step_seq;
                }
            }
            out
        });
        self.slices = pairs.collect();
    }

    /// The run is over.
    pub fn finish(mut self, axis: &Axis) -> Vec<Slice> {
        self.spend(axis);
        self.slices
    }
}

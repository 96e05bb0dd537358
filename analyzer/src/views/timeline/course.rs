//! Steps and phases over time, bucket by bucket.

use gpumem_capture::{Event, EventKind, Nanos, Seq, ThreadId};
use rustc_hash::FxHashMap;

use super::CourseBucket;
use super::axis::{Axis, BUCKETS};
use crate::replay::{Replay, ThreadPhase};

/// Backward, an optimizer's step, zeroing, phases of unknown kinds.
pub(super) const PHASES: usize = 4;

/// The contents of one bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Slice {
    /// Time in each phase, ns.
    pub phases: [u64; PHASES],
    /// The last step that ended, its time and its event; 0 without a step.
    pub step: u64,
    pub step_time: u64,
    pub step_seq: Seq,
    /// How many ended.
    pub steps: u64,
}

/// Follows the marks, in separate buckets: phases continue while no memory changes.
#[derive(Debug, Default)]
pub(super) struct CourseTrack {
    /// `None` before the start of the stretch.
    axis: Option<Axis>,
    slices: Vec<Slice>,
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
    /// The stretch begins.
    pub fn begin(&mut self, time: Nanos) {
        self.axis = Some(Axis::from(time));
        self.since = time.0;
    }

    /// Advances to an event's time.
    pub fn advance(&mut self, time: Nanos) {
        let doubled = self.axis.as_mut().map_or(0, |axis| axis.advance(time));
        (0..doubled).for_each(|_| self.merge());
    }

    /// Observes a mark after the replay has.
    pub fn mark(&mut self, replay: &Replay, seq: Seq, event: &Event) {
        match event.kind {
            EventKind::STEP => {
                let Some(axis) = self.axis else { return };
                let slice = self.slice(axis.current());
                slice.step = replay.spans.steps;
                slice.step_time = axis.now();
                slice.step_seq = seq;
                slice.steps += 1;
            }
            EventKind::PHASE_BEGIN | EventKind::PHASE_END => {
                self.spend();
                match phase(replay.spans.marked(event.thread)) {
                    Some(phase) => drop(self.threads.insert(event.thread, phase)),
                    None => drop(self.threads.remove(&event.thread)),
                }
            }
            _ => {}
        }
    }

    fn slice(&mut self, index: u64) -> &mut Slice {
        let index = index.min(BUCKETS as u64 - 1) as usize;
        if self.slices.len() <= index {
            self.slices.resize(index + 1, Slice::default());
        }
        &mut self.slices[index]
    }

    /// Adds the time since the last mark to the current phase of the process. With several threads, this is the first
    /// one in the order of phases.
    fn spend(&mut self) {
        let Some(axis) = self.axis else { return };
        let (mut from, now) = (self.since.max(axis.start()), axis.now());
        self.since = now;
        let Some(phase) = self.threads.values().min().copied() else {
            return;
        };
        while from < now {
            let index = axis.index(from);
            // The end of the last bucket may overflow for very late times.
            let end = match axis.begin(index + 1).min(now) {
                end if end > from => end,
                _ => now,
            };
            self.slice(index).phases[phase] += end - from;
            from = end;
        }
    }

    /// Doubles the width of buckets.
    fn merge(&mut self) {
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

    /// The run, or the stretch of it, ends at this time.
    pub fn finish(mut self, to: u64) -> Vec<CourseBucket> {
        self.advance(Nanos(to));
        self.spend();
        let Some(axis) = self.axis else {
            return Vec::new();
        };
        let slices = self.slices.into_iter().enumerate();
        let slices = slices.filter(|(_, slice)| *slice != Slice::default());
        slices
            .map(|(index, slice)| bucket(&axis, index as u64, slice))
            .collect()
    }
}

fn bucket(axis: &Axis, index: u64, slice: Slice) -> CourseBucket {
    let [backward_ns, optimizer_ns, zero_grad_ns, other_ns] = slice.phases;
    CourseBucket {
        from_ns: axis.begin(index),
        to_ns: axis.begin(index + 1).min(axis.now()),
        backward_ns,
        optimizer_ns,
        zero_grad_ns,
        other_ns,
        step: (slice.steps > 0).then_some(slice.step),
        step_ns: (slice.steps > 0).then_some(slice.step_time),
        steps: slice.steps,
    }
}

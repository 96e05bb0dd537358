//! The open spans of the program: phases of a training, named ranges, steps.
//!
//! Phases and pushed ranges nest within a thread. An end that does not match the newest begin ends the newest one that
//! it matches, and all that began within that one: their ends are lost. An end without a match is ignored. At most
//! [`DEPTH`] of a kind are kept; the oldest are dropped first.

use gpumem_capture::{Event, EventKind, Phase as Number, ThreadId};
use rustc_hash::FxHashMap;

use crate::purpose::ThreadPhase;
use crate::serialize::{Serialize, serialize};

/// The maximum depth of phases and ranges.
const DEPTH: usize = 256;

#[derive(Debug, Default)]
struct Thread {
    phases: Vec<u64>,
    ranges: Vec<u32>,
}

impl Thread {
    fn phase(&self) -> ThreadPhase {
        self.phases
            .last()
            .map_or(ThreadPhase::Outside, |phase| ThreadPhase::of(*phase))
    }
}

/// The open spans of all threads.
#[derive(Debug, Default)]
pub struct Spans {
    /// The number of the last step that ended; 0: none was marked.
    pub steps: u64,
    /// Whether any phase was marked, which means that the process trains.
    pub trains: bool,
    threads: FxHashMap<ThreadId, Thread>,
    /// Threads that are in backward.
    in_backward: Vec<ThreadId>,
    /// Ranges that any thread may end, by their handles.
    open: Vec<(u64, u32)>,
    /// The result of the last query of a phase.
    last: Option<(ThreadId, ThreadPhase)>,
    /// Whether a range may be open, because one was begun.
    pub(crate) has_ranges: bool,
}

serialize! {
    Thread { phases, ranges }
}

/// Everything except what can be computed again.
impl Serialize for Spans {
    fn put(&self, to: &mut Vec<u8>) {
        self.steps.put(to);
        self.trains.put(to);
        self.threads.put(to);
        self.in_backward.put(to);
        self.open.put(to);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        let mut spans = Self {
            steps: Serialize::take(from)?,
            trains: Serialize::take(from)?,
            threads: Serialize::take(from)?,
            in_backward: Serialize::take(from)?,
            open: Serialize::take(from)?,
            ..Self::default()
        };
        let mut threads = spans.threads.values();
        spans.has_ranges = !spans.open.is_empty() || threads.any(|of| !of.ranges.is_empty());
        Some(spans)
    }
}

impl Spans {
    /// Takes in an event if it is a mark; returns whether it was one.
    #[inline]
    pub(crate) fn mark(&mut self, event: &Event) -> bool {
        match event.kind {
            EventKind::ALLOC | EventKind::FREE => return false,
            EventKind::STEP => self.steps = self.steps.saturating_add(1).max(event.aux),
            EventKind::PHASE_BEGIN | EventKind::PHASE_END => self.phase_mark(event),
            EventKind::RANGE_BEGIN | EventKind::RANGE_END => self.range_mark(event),
            // Only readers of marks use them; they change no state.
            EventKind::SCOPE_BEGIN | EventKind::SCOPE_END | EventKind::MARK => {}
            _ => return false,
        }
        true
    }

    fn phase_mark(&mut self, event: &Event) {
        self.trains = true;
        self.last = None;
        let phases = &mut self.threads.entry(event.thread).or_default().phases;
        if event.kind == EventKind::PHASE_BEGIN {
            push(phases, event.aux);
        } else if let Some(at) = phases.iter().rposition(|phase| *phase == event.aux) {
            phases.truncate(at);
        }
        let backward = phases.contains(&Number::BACKWARD.0);
        self.in_backward.retain(|thread| *thread != event.thread);
        if backward {
            self.in_backward.push(event.thread);
        }
    }

    fn range_mark(&mut self, event: &Event) {
        self.has_ranges = true;
        let name = event.aux as u32;
        match (event.kind == EventKind::RANGE_BEGIN, event.ptr) {
            (true, 0) => push(&mut self.thread(event).ranges, name),
            (false, 0) => drop(self.thread(event).ranges.pop()),
            (true, handle) => push(&mut self.open, (handle, name)),
            (false, handle) => {
                if let Some(at) = self.open.iter().rposition(|(open, _)| *open == handle) {
                    self.open.remove(at);
                }
            }
        }
    }

    fn thread(&mut self, event: &Event) -> &mut Thread {
        self.threads.entry(event.thread).or_default()
    }

    /// The phase of a thread; `python`: whether it runs any.
    pub(crate) fn phase(&mut self, thread: ThreadId, python: bool) -> ThreadPhase {
        self.last = Some((thread, self.marked(thread)));
        if python {
            return self.marked(thread);
        }
        self.without_python(thread)
    }

    /// The phase of a thread that runs no Python.
    pub(crate) fn without_python(&self, thread: ThreadId) -> ThreadPhase {
        match self.marked(thread) {
            ThreadPhase::Outside if !self.in_backward.is_empty() => ThreadPhase::Beside,
            phase => phase,
        }
    }

    /// The phase of a thread according to its own marks.
    pub fn marked(&self, thread: ThreadId) -> ThreadPhase {
        match self.last {
            Some((last, phase)) if last == thread => phase,
            _ => self
                .threads
                .get(&thread)
                .map(Thread::phase)
                .unwrap_or_default(),
        }
    }

    /// The innermost range of a thread: one that it began itself. For `backward`, the work of an autograd node, it is
    /// one of the thread that waits for the node, if only one thread waits. Else it is the newest range that any thread
    /// may end.
    pub(crate) fn range(&self, thread: ThreadId, backward: bool) -> Option<u32> {
        let of = |thread: &ThreadId| self.threads.get(thread)?.ranges.last().copied();
        let waits = || match &self.in_backward[..] {
            [waits] if backward => of(waits),
            _ => None,
        };
        let open = || self.open.last().map(|(_, name)| *name);
        of(&thread).or_else(waits).or_else(open)
    }
}

fn push<T>(stack: &mut Vec<T>, value: T) {
    if stack.len() == DEPTH {
        stack.remove(0);
    }
    stack.push(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: EventKind, thread: u32, aux: u64, ptr: u64) -> Event {
        let thread = ThreadId(thread);
        Event {
            kind,
            thread,
            aux,
            ptr,
            ..Event::default()
        }
    }

    fn spans(marks: &[(EventKind, u32, u64, u64)]) -> Spans {
        let mut spans = Spans::default();
        for (kind, thread, aux, ptr) in marks {
            assert!(spans.mark(&event(*kind, *thread, *aux, *ptr)));
        }
        spans
    }

    const BEGIN: EventKind = EventKind::PHASE_BEGIN;
    const END: EventKind = EventKind::PHASE_END;
    const PUSH: EventKind = EventKind::RANGE_BEGIN;
    const POP: EventKind = EventKind::RANGE_END;

    #[test]
    fn the_innermost_phase_of_the_thread_itself_counts() {
        let mut spans = spans(&[(BEGIN, 1, 2, 0), (BEGIN, 1, 1, 0), (BEGIN, 2, 3, 0)]);
        assert_eq!(spans.phase(ThreadId(1), true), ThreadPhase::Backward);
        assert_eq!(spans.phase(ThreadId(2), true), ThreadPhase::ZeroGrad);
        assert_eq!(spans.phase(ThreadId(3), true), ThreadPhase::Outside);
        assert_eq!(spans.phase(ThreadId(3), false), ThreadPhase::Beside);
        let marked = [1, 2, 3].map(|thread| spans.marked(ThreadId(thread)));
        assert_eq!(
            marked,
            [
                ThreadPhase::Backward,
                ThreadPhase::ZeroGrad,
                ThreadPhase::Outside
            ]
        );
        spans.mark(&event(END, 1, 1, 0));
        assert_eq!(spans.phase(ThreadId(1), true), ThreadPhase::Optimizer);
        assert_eq!(spans.phase(ThreadId(3), false), ThreadPhase::Outside);
        spans.mark(&event(END, 1, 2, 0));
        assert_eq!(spans.phase(ThreadId(1), true), ThreadPhase::Outside);
        spans.mark(&event(BEGIN, 1, 77, 0));
        assert_eq!(spans.phase(ThreadId(1), true), ThreadPhase::Other);
    }

    #[test]
    fn an_end_takes_what_began_within_it_and_one_that_fits_none_does_nothing() {
        let mut spans = spans(&[(BEGIN, 1, 2, 0), (BEGIN, 1, 1, 0), (BEGIN, 1, 3, 0)]);
        spans.mark(&event(END, 1, 1, 0));
        assert_eq!(spans.phase(ThreadId(1), true), ThreadPhase::Optimizer);
        spans.mark(&event(END, 1, 1, 0));
        assert_eq!(spans.phase(ThreadId(1), true), ThreadPhase::Optimizer);
        spans.mark(&event(END, 9, 2, 0));
        assert_eq!(spans.phase(ThreadId(9), true), ThreadPhase::Outside);
    }

    #[test]
    fn begins_that_never_end_take_no_more_than_their_place() {
        let mut spans = Spans::default();
        for _ in 0..10_000 {
            spans.mark(&event(BEGIN, 1, 1, 0));
            spans.mark(&event(PUSH, 1, 5, 0));
            spans.mark(&event(PUSH, 1, 6, 0xabc));
        }
        let thread = &spans.threads[&ThreadId(1)];
        let lengths = [thread.phases.len(), thread.ranges.len(), spans.open.len()];
        assert_eq!(lengths, [DEPTH; 3]);
        assert_eq!(spans.in_backward, [ThreadId(1)]);
        assert_eq!(spans.phase(ThreadId(1), false), ThreadPhase::Backward);
    }

    #[test]
    fn the_innermost_range_is_the_threads_own_then_its_waiters_then_anyones() {
        let mut spans = spans(&[(PUSH, 1, 10, 0), (PUSH, 1, 11, 0), (PUSH, 2, 12, 0x70)]);
        let (one, node) = (ThreadId(1), ThreadId(5));
        assert_eq!(spans.range(one, false), Some(11));
        assert_eq!(spans.range(node, true), Some(12), "nobody waits");
        spans.mark(&event(BEGIN, 1, 1, 0));
        assert_eq!(spans.range(node, true), Some(11));
        assert_eq!(spans.range(node, false), Some(12));
        spans.mark(&event(BEGIN, 3, 1, 0));
        assert_eq!(spans.range(node, true), Some(12), "two wait");
        spans.mark(&event(POP, 1, 0, 0));
        assert_eq!(spans.range(one, false), Some(10));
        for _ in 0..3 {
            spans.mark(&event(POP, 1, 0, 0));
        }
        assert_eq!(spans.range(one, false), Some(12));
        spans.mark(&event(POP, 4, 0, 0x71));
        spans.mark(&event(POP, 4, 0, 0x70));
        assert_eq!(spans.range(one, false), None);
    }

    #[test]
    fn steps_go_by_their_numbers_where_marks_are_missing() {
        let step = EventKind::STEP;
        assert_eq!(spans(&[(step, 1, 1, 0), (step, 1, 2, 0)]).steps, 2);
        assert_eq!(spans(&[(step, 1, 0, 0), (step, 1, 0, 0)]).steps, 2);
        assert_eq!(spans(&[(step, 1, 1, 0), (step, 1, 9, 0)]).steps, 9);
        let end = spans(&[(step, 1, u64::MAX, 0), (step, 1, 1, 0)]).steps;
        assert_eq!(end, u64::MAX);
        assert!(!spans(&[(step, 1, 1, 0)]).trains);
    }
}

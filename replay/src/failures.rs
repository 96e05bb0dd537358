//! Allocations that failed for want of memory: what the program was told of, and what the framework's allocator answered by
//! itself.
//!
//! PyTorch's allocator asks the driver, is refused, gives back what it has cached, and asks again. Only if that is refused
//! too does the program get an exception. So a refusal is undecided until its thread makes a tensor, which answers it, or
//! gets the exception, which takes its place. It is taken for the same request by its Python stack.

use std::collections::BTreeMap;

use gpumem_capture::{Event, EventKind, Level, Seq, StackId, ThreadId};

use crate::serialize::serialize;
use crate::span_context::SpanContext;

/// An allocation that failed for want of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory {
    /// Which event.
    pub seq: Seq,
    /// The event itself: see [`EventKind::OUT_OF_MEMORY`].
    pub event: Event,
    /// What the program was at.
    pub span_context: SpanContext,
    /// How often the driver had refused it by then, if a framework's allocator had asked.
    pub refusals: u64,
}

serialize! {
    OutOfMemory { seq, event, span_context, refusals }
}

impl OutOfMemory {
    /// Whether a framework gave up, and raised an exception.
    pub fn is_exception(&self) -> bool {
        self.event.level == Level::TENSOR
    }
}

/// How many of a kind are kept in full: the first ones, and the newest.
const KEPT: usize = 100;

/// Some of the failures of a kind, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Kept {
    all: Vec<OutOfMemory>,
    /// How many there were.
    count: u64,
}

serialize! {
    Kept { all, count }
}

impl Kept {
    fn push(&mut self, failure: OutOfMemory) {
        if self.all.len() == KEPT {
            self.all.pop();
        }
        self.all.push(failure);
        self.count += 1;
    }

    /// What came after all of these.
    fn append(&mut self, others: Kept) {
        let left_out = others.count - others.all.len() as u64;
        others
            .all
            .into_iter()
            .for_each(|failure| self.push(failure));
        self.count += left_out;
    }
}

/// What the driver has refused to one thread for one request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Undecided {
    py_stack: StackId,
    refusals: Kept,
}

serialize! {
    Undecided { py_stack, refusals }
}

/// The failures of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failures {
    /// Exceptions of a framework.
    exceptions: Kept,
    /// What a function of CUDA refused to whoever called it.
    refused: Kept,
    undecided: BTreeMap<ThreadId, Undecided>,
    /// Refusals after which the framework's allocator got what it wanted all the same.
    answered: u64,
}

serialize! {
    Failures { exceptions, refused, undecided, answered }
}

impl Failures {
    /// Whether what becomes of tensors matters.
    #[inline]
    pub(crate) fn are_undecided(&self) -> bool {
        !self.undecided.is_empty()
    }

    /// A request failed.
    pub(crate) fn failed(&mut self, seq: Seq, event: &Event, span_context: SpanContext) {
        let mut failure = OutOfMemory {
            seq,
            event: *event,
            span_context,
            refusals: 0,
        };
        match event.level {
            Level::TENSOR => {
                if let Some(refusals) = self.decide(event) {
                    failure.refusals = refusals.count;
                }
                self.exceptions.push(failure);
            }
            Level::DRIVER => {
                let of = self.undecided.entry(event.thread).or_default();
                if of.refusals.count > 0 && !is_same(of.py_stack, event.py_stack) {
                    let before = std::mem::take(&mut of.refusals);
                    self.refused.append(before);
                }
                of.py_stack = event.py_stack;
                of.refusals.push(failure);
            }
            _ => self.refused.push(failure),
        }
    }

    /// A thread has made a tensor.
    pub(crate) fn made(&mut self, event: &Event) {
        debug_assert_eq!(event.kind, EventKind::ALLOC);
        if let Some(refusals) = self.decide(event) {
            self.answered += refusals.count;
        }
    }

    /// What was refused to a thread that now has a tensor or an exception, if it was for that. Else the refusals were what
    /// the program got.
    fn decide(&mut self, event: &Event) -> Option<Kept> {
        let of = self.undecided.remove(&event.thread)?;
        if is_same(of.py_stack, event.py_stack) {
            return Some(of.refusals);
        }
        self.refused.append(of.refusals);
        None
    }

    /// How many the program was told of.
    pub fn count(&self) -> u64 {
        let undecided = self.undecided.values().map(|of| of.refusals.count);
        self.exceptions.count + self.refused.count + undecided.sum::<u64>()
    }

    /// Refusals of the driver that a framework's allocator answered by giving back what it had cached.
    pub fn answered(&self) -> u64 {
        self.answered
    }

    /// Those that are kept, in their order, each with its number from 1: of each kind the first ones and the newest.
    pub fn all(&self) -> Vec<(u64, OutOfMemory)> {
        let mut all: Vec<OutOfMemory> = self.iter().copied().collect();
        all.sort_by_key(|failure| failure.seq);
        let left_out = self.count() - all.len() as u64;
        let last = all.len();
        let numbered = (1..).zip(all).map(|(at, failure)| match at {
            // What is left out came before the newest.
            at if at == last => (at as u64 + left_out, failure),
            at => (at as u64, failure),
        });
        numbered.collect()
    }

    /// The one to tell of first: the last exception, else the last that there was.
    pub fn main(&self) -> Option<(u64, OutOfMemory)> {
        let all = self.all();
        let exception = all.iter().rfind(|(_, failure)| failure.is_exception());
        exception.or(all.last()).copied()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &OutOfMemory> {
        let undecided = self.undecided.values().flat_map(|of| &of.refusals.all);
        let decided = self.exceptions.all.iter().chain(&self.refused.all);
        decided.chain(undecided)
    }
}

/// Whether both may be of one request. Stacks may be off, or sampled.
fn is_same(one: StackId, other: StackId) -> bool {
    one == other || one == StackId::NONE || other == StackId::NONE
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serialize::Serialize;

    struct Program {
        failures: Failures,
        seq: u64,
    }

    impl Program {
        fn new() -> Self {
            let failures = Failures::default();
            Self { failures, seq: 0 }
        }

        fn event(&mut self, kind: EventKind, level: Level, thread: u32, stack: u32) {
            self.seq += 1;
            let event = Event {
                kind,
                level,
                thread: ThreadId(thread),
                py_stack: StackId(stack),
                ..Event::default()
            };
            match kind {
                EventKind::ALLOC => self.failures.made(&event),
                _ => self
                    .failures
                    .failed(Seq(self.seq), &event, SpanContext::default()),
            }
        }

        fn refused(&mut self, thread: u32, stack: u32) {
            self.event(EventKind::OUT_OF_MEMORY, Level::DRIVER, thread, stack);
        }

        fn exception(&mut self, thread: u32, stack: u32) {
            self.event(EventKind::OUT_OF_MEMORY, Level::TENSOR, thread, stack);
        }

        fn tensor(&mut self, thread: u32, stack: u32) {
            self.event(EventKind::ALLOC, Level::TENSOR, thread, stack);
        }

        /// (number, event, whether it is an exception, refusals) of each that is kept.
        fn told(&self) -> Vec<(u64, u64, bool, u64)> {
            let all = self.failures.all();
            all.into_iter()
                .map(|(number, of)| (number, of.seq.0, of.is_exception(), of.refusals))
                .collect()
        }
    }

    #[test]
    fn an_exception_takes_the_place_of_its_refusals() {
        let mut program = Program::new();
        program.refused(1, 7);
        program.refused(1, 7);
        assert_eq!(program.failures.count(), 2);
        program.exception(1, 7);
        assert_eq!(program.told(), [(1, 3, true, 2)]);
        assert_eq!(
            (program.failures.count(), program.failures.answered()),
            (1, 0)
        );
    }

    #[test]
    fn a_tensor_answers_the_refusals_of_its_own_thread() {
        let mut program = Program::new();
        program.refused(1, 7);
        program.refused(2, 7);
        program.tensor(1, 7);
        program.tensor(3, 7);
        assert_eq!(program.told(), [(1, 2, false, 0)]);
        assert_eq!(program.failures.answered(), 1);
        program.tensor(2, 7);
        assert_eq!(
            (program.failures.count(), program.failures.answered()),
            (0, 2)
        );
        assert!(!program.failures.are_undecided());
    }

    #[test]
    fn what_another_line_was_refused_is_a_failure() {
        let mut program = Program::new();
        program.refused(1, 7);
        program.refused(1, 8);
        program.tensor(1, 8);
        program.refused(1, 9);
        program.tensor(1, 8);
        assert_eq!(program.told(), [(1, 1, false, 0), (2, 4, false, 0)]);
        assert_eq!(program.failures.answered(), 1);
    }

    #[test]
    fn without_stacks_all_of_a_thread_is_one_request() {
        let mut program = Program::new();
        program.refused(1, 7);
        program.tensor(1, 0);
        program.refused(1, 0);
        program.exception(1, 7);
        assert_eq!(program.told(), [(1, 4, true, 1)]);
        assert_eq!(program.failures.answered(), 1);
    }

    #[test]
    fn the_newest_is_always_kept_and_the_exception_told_first() {
        let mut program = Program::new();
        for _ in 0..150 {
            program.exception(1, 7);
        }
        for stack in 1..=300 {
            program.refused(2, stack);
        }
        assert_eq!(program.failures.count(), 450);
        let (number, last) = program.told().last().map(|of| (of.0, of.1)).unwrap();
        assert_eq!((number, last), (450, 450));
        assert_eq!(program.failures.main().unwrap().1.seq, Seq(150));
        assert!(program.told().len() <= 2 * KEPT + 1);
        // And after its state was written and read.
        let mut bytes = Vec::new();
        program.failures.put(&mut bytes);
        let again = Failures::take(&mut bytes.as_slice()).unwrap();
        assert_eq!(again, program.failures);
    }
}

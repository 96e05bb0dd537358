//! Allocations that failed for want of memory: what the program was told of, and what the framework's allocator answered by
//! itself.
//!
//! PyTorch's allocator asks the driver, is refused, gives back what it has cached, and asks again. Only if that is refused
//! too does the program get an exception. So a refusal is undecided until its thread makes a tensor, which answers it, or
//! gets the exception, which takes its place. It is taken for the same request by its Python stack. Other errors of CUDA are
//! known to be the program's once it asks for their text.

use std::collections::BTreeMap;

use gpumem_capture::{DeviceOrdinal, Event, EventKind, Level, Seq, StackId, ThreadId};

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
    /// Whether the program asked for the text of the error.
    pub is_told: bool,
}

serialize! {
    OutOfMemory { seq, event, span_context, refusals, is_told }
}

impl OutOfMemory {
    /// Whether a framework gave up, and raised an exception.
    pub fn is_exception(&self) -> bool {
        self.event.level == Level::TENSOR || self.is_told
    }

    /// Whether the driver refused it, and no limit of a framework's own.
    pub fn was_refused(&self) -> bool {
        self.event.level != Level::TENSOR || self.refusals > 0
    }

    /// Whether nothing is known of it but that the program asked for the text of an error.
    pub fn is_by_text(&self) -> bool {
        (self.event.level, self.event.aux) == (Level::PHYSICAL, 1)
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
    /// The thread to which the last of `refused` was refused, if it has made no tensor and asked for no text since.
    untold: Option<ThreadId>,
    /// Refusals after which the framework's allocator got what it wanted all the same.
    answered: BTreeMap<DeviceOrdinal, u64>,
}

serialize! {
    Failures { exceptions, refused, undecided, untold, answered }
}

impl Failures {
    /// Whether what becomes of tensors matters.
    #[inline]
    pub(crate) fn are_undecided(&self) -> bool {
        !self.undecided.is_empty() || self.untold.is_some()
    }

    /// A request failed.
    pub(crate) fn failed(&mut self, seq: Seq, event: &Event, span_context: SpanContext) {
        let mut failure = OutOfMemory {
            seq,
            event: *event,
            span_context,
            refusals: 0,
            is_told: false,
        };
        failure.is_told = failure.is_by_text();
        match event.level {
            _ if failure.is_told => {
                // What was refused to the thread, which has made no tensor since, is what the text is of.
                let refusals = self.undecided.remove(&event.thread).unwrap_or_default();
                let refusals = refusals.refusals;
                if let Some(last) = refusals.all.last() {
                    return self.refused.push(OutOfMemory {
                        refusals: refusals.count,
                        is_told: true,
                        ..*last
                    });
                }
                match self.refused.all.last_mut() {
                    Some(last) if self.untold.take() == Some(event.thread) => last.is_told = true,
                    _ => self.refused.push(failure),
                }
            }
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
                    self.untold = None;
                }
                of.py_stack = event.py_stack;
                of.refusals.push(failure);
            }
            _ => {
                self.refused.push(failure);
                self.untold = Some(event.thread);
            }
        }
    }

    /// A thread has made a tensor.
    pub(crate) fn made(&mut self, event: &Event) {
        debug_assert_eq!(event.kind, EventKind::ALLOC);
        self.untold = self.untold.filter(|thread| *thread != event.thread);
        if let Some(refusals) = self.decide(event) {
            *self.answered.entry(event.device).or_default() += refusals.count;
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
        self.untold = None;
        None
    }

    /// How many the program was told of.
    pub fn count(&self) -> u64 {
        let undecided = self.undecided.values().map(|of| of.refusals.count);
        self.exceptions.count + self.refused.count + undecided.sum::<u64>()
    }

    /// Refusals of the driver that a framework's allocator answered by giving back what it had cached.
    pub fn answered(&self) -> u64 {
        self.answered.values().sum()
    }

    /// The same of each device that has any.
    pub fn answered_on(&self, device: DeviceOrdinal) -> u64 {
        self.answered.get(&device).copied().unwrap_or(0)
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
mod tests;

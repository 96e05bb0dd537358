//! Allocations that failed with an out-of-memory error: failures that the program saw, and those that the framework's
//! allocator resolved.
//!
//! PyTorch's allocator requests memory from the driver. If that fails, it empties its cache and tries again. Only if
//! that fails too does the program get an exception. So a refusal is undecided until its thread allocates a tensor,
//! which resolves it, or gets the exception, which replaces it. A refusal and its outcome belong to the same request if
//! they have the same Python stack. Other CUDA errors are known to be the program's once it queries their text.

use std::collections::BTreeMap;

use gpumem_capture::{DeviceOrdinal, Event, EventKind, Level, Seq, StackId, ThreadId};

use crate::serialize::serialize;
use crate::span_context::SpanContext;

/// An allocation that failed with an out-of-memory error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory {
    /// The event's number.
    pub seq: Seq,
    /// The event: see [`EventKind::OUT_OF_MEMORY`].
    pub event: Event,
    /// The span context.
    pub span_context: SpanContext,
    /// The number of refusals by the driver until then, if a framework's allocator made the request.
    pub refusals: u64,
    /// Whether the program queried the text of the error.
    pub is_told: bool,
}

serialize! {
    OutOfMemory { seq, event, span_context, refusals, is_told }
}

impl OutOfMemory {
    /// Whether a framework gave up and raised an exception.
    pub fn is_exception(&self) -> bool {
        self.event.level == Level::TENSOR || self.is_told
    }

    /// Whether the driver refused it, rather than a framework's own limit.
    pub fn was_refused(&self) -> bool {
        self.event.level != Level::TENSOR || self.refusals > 0
    }

    /// Whether the only record of it is that the program queried the text of an error.
    pub fn is_by_text(&self) -> bool {
        (self.event.level, self.event.aux) == (Level::PHYSICAL, 1)
    }
}

/// How many failures of a kind are kept in full: the first ones, and the newest.
const KEPT: usize = 100;

/// Some of the failures of a kind, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Kept {
    all: Vec<OutOfMemory>,
    /// The number of all failures of the kind.
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

    /// Appends failures that all came later.
    fn append(&mut self, others: Kept) {
        let left_out = others.count - others.all.len() as u64;
        others
            .all
            .into_iter()
            .for_each(|failure| self.push(failure));
        self.count += left_out;
    }
}

/// The driver's refusals to one thread for one request.
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
    /// Requests that a CUDA function refused to any caller.
    refused: Kept,
    undecided: BTreeMap<ThreadId, Undecided>,
    /// The thread of the newest of `refused`, if it has neither allocated a tensor nor queried an error's text since.
    untold: Option<ThreadId>,
    /// Refusals after which the framework's allocator got the memory.
    answered: BTreeMap<DeviceOrdinal, u64>,
}

serialize! {
    Failures { exceptions, refused, undecided, untold, answered }
}

impl Failures {
    /// Whether tensor allocations can decide a refusal.
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
                // The text belongs to the thread's refusals, because it has allocated no tensor since.
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

    /// A thread allocated a tensor.
    pub(crate) fn made(&mut self, event: &Event) {
        debug_assert_eq!(event.kind, EventKind::ALLOC);
        self.untold = self.untold.filter(|thread| *thread != event.thread);
        if let Some(refusals) = self.decide(event) {
            *self.answered.entry(event.device).or_default() += refusals.count;
        }
    }

    /// The refusals to a thread that now has a tensor or an exception, if they belong to the same request. Otherwise
    /// they become failures of the program.
    fn decide(&mut self, event: &Event) -> Option<Kept> {
        let of = self.undecided.remove(&event.thread)?;
        if is_same(of.py_stack, event.py_stack) {
            return Some(of.refusals);
        }
        self.refused.append(of.refusals);
        self.untold = None;
        None
    }

    /// The number of failures that the program saw.
    pub fn count(&self) -> u64 {
        let undecided = self.undecided.values().map(|of| of.refusals.count);
        self.exceptions.count + self.refused.count + undecided.sum::<u64>()
    }

    /// Refusals by the driver that a framework's allocator resolved by emptying its cache.
    pub fn answered(&self) -> u64 {
        self.answered.values().sum()
    }

    /// The number of these on a device.
    pub fn answered_on(&self, device: DeviceOrdinal) -> u64 {
        self.answered.get(&device).copied().unwrap_or(0)
    }

    /// The failures that are kept, in order, each with its number from 1. Of each kind, the first ones and the newest
    /// are kept.
    pub fn all(&self) -> Vec<(u64, OutOfMemory)> {
        let mut all: Vec<OutOfMemory> = self.iter().copied().collect();
        all.sort_by_key(|failure| failure.seq);
        let left_out = self.count() - all.len() as u64;
        let last = all.len();
        let numbered = (1..).zip(all).map(|(at, failure)| match at {
            // The failures that are not kept came before the newest.
            at if at == last => (at as u64 + left_out, failure),
            at => (at as u64, failure),
        });
        numbered.collect()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &OutOfMemory> {
        let undecided = self.undecided.values().flat_map(|of| &of.refusals.all);
        let decided = self.exceptions.all.iter().chain(&self.refused.all);
        decided.chain(undecided)
    }
}

/// Whether both may belong to one request. Stacks may be off, or sampled.
fn is_same(one: StackId, other: StackId) -> bool {
    one == other || one == StackId::NONE || other == StackId::NONE
}

#[cfg(test)]
mod tests;

//! Ends that were recorded for a call that has not returned.

use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use gpumem_capture::{EventFlags, Seq};

use super::alias::Alias;
use super::block::{Block, Key};
use super::context::Ending;
use super::ended::Ended;
use super::graph::Nodes;
use super::handle::{Handle, Mapping};

/// A call that has not been made yet, for which ends were recorded. Pass it to [`crate::Tracker::settle`], unless
/// it [is over](Pending::is_over). If the call never returns (it was left by `longjmp`), the ends stay.
#[must_use]
#[derive(Debug, Default)]
pub struct Pending {
    /// Most calls end one thing: that allocates no memory.
    first: Option<Undo>,
    more: Vec<Undo>,
    pub(crate) then: Option<Then>,
}

impl Pending {
    /// Whether nothing remains to be done once the call has returned.
    pub fn is_over(&self, succeeded: bool) -> bool {
        succeeded && self.then.is_none()
    }

    pub(crate) fn push(&mut self, undo: Undo) {
        match self.first {
            None => self.first = Some(undo),
            Some(_) => self.more.push(undo),
        }
    }

    /// Removes the last end that was not reverted yet.
    pub(crate) fn pop(&mut self) -> Option<Undo> {
        self.more.pop().or_else(|| self.first.take())
    }
}

/// The number of an event, once the event is recorded.
#[derive(Clone, Debug)]
pub(crate) struct Number(Arc<AtomicU64>);

impl Number {
    /// The number of an event that is not recorded, or that was lost: no event has this number.
    const NONE: Seq = Seq(u64::MAX);

    pub(crate) fn unknown() -> Self {
        Self(Arc::new(AtomicU64::new(Self::NONE.0)))
    }

    pub(crate) fn set(&self, seq: Option<Seq>) {
        let Seq(number) = seq.unwrap_or(Self::NONE);
        self.0.store(number, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> Seq {
        Seq(self.0.load(Ordering::Relaxed))
    }
}

/// How an end is reverted.
#[derive(Debug)]
pub(crate) enum Undo {
    /// With the number of its FREE.
    Block {
        key: Key,
        block: Block,
        free: Number,
    },
    /// One opening was closed.
    Alias {
        ptr: u64,
        alias: Alias,
    },
    /// The earlier state.
    Handle {
        handle: u64,
        before: Handle,
    },
    Mapping {
        at: u64,
        mapping: Mapping,
    },
    Address {
        ptr: u64,
        bytes: u64,
    },
    Reserved(Ended),
    Context(Ending),
    /// The pool was not known as destroyed.
    Pool(u64),
}

/// What to do once the call has succeeded.
#[derive(Debug)]
pub(crate) enum Then {
    UnknownFree { key: Key, flags: EventFlags },
    EndContext(Ending),
    Unload(u64),
    Launch { nodes: Nodes, caller: u64 },
}

//! What a call has ended that has not returned.

use gpumem_capture::{EventFlags, Seq};

use super::alias::Alias;
use super::block::{Block, Key};
use super::context::Ending;
use super::ended::Ended;
use super::graph::Nodes;
use super::handle::{Handle, Mapping};

/// A call that is about to be made and has ended something: to be passed to [`crate::Tracker::settle`]. If it never returns
/// (it was left by `longjmp`), what it ended stays so.
#[must_use]
#[derive(Debug)]
pub struct Pending(pub(crate) u64);

/// How something is taken back.
#[derive(Debug)]
pub(crate) enum Undo {
    /// With the number of its FREE, once that is recorded.
    Block {
        key: Key,
        block: Block,
        seq: Option<Seq>,
    },
    /// One opening less.
    Alias {
        ptr: u64,
        alias: Alias,
    },
    /// As it was before.
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
    /// It was not known as destroyed.
    Pool(u64),
}

/// What is done once the call has succeeded.
#[derive(Debug)]
pub(crate) enum Then {
    UnknownFree { key: Key, flags: EventFlags },
    EndContext(Ending),
    Unload(u64),
    Launch { nodes: Nodes, caller: u64 },
}

/// All of a call.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) id: u64,
    pub(crate) undo: Vec<Undo>,
    pub(crate) then: Option<Then>,
}

impl Work {
    /// The oldest FREE without a number has this one.
    pub(crate) fn recorded(&mut self, is: Option<Seq>) {
        let mut blocks = self.undo.iter_mut().filter_map(|undo| match undo {
            Undo::Block { seq, .. } => Some(seq),
            _ => None,
        });
        if let Some(seq) = blocks.find(|seq| seq.is_none()) {
            // None of a record that was lost: nothing has that number.
            *seq = is.or(Some(Seq(u64::MAX)));
        }
    }
}

/// The calls that have not returned, and room for what the next ones end: no memory is asked for by each.
#[derive(Debug, Default)]
pub(crate) struct InProgress {
    calls: Vec<Work>,
    spare: Vec<Vec<Undo>>,
}

/// Lists that are kept for later calls, and how long they may be.
const SPARE: (usize, usize) = (16, 16);

impl InProgress {
    pub(crate) fn begin(&mut self, id: u64) -> Work {
        Work {
            id,
            undo: self.spare.pop().unwrap_or_default(),
            then: None,
        }
    }

    pub(crate) fn keep(&mut self, work: Work) {
        self.calls.push(work);
    }

    pub(crate) fn get_mut(&mut self, id: u64) -> Option<&mut Work> {
        self.calls.iter_mut().rev().find(|work| work.id == id)
    }

    pub(crate) fn take(&mut self, pending: &Pending) -> Option<Work> {
        let at = self.calls.iter().rposition(|work| work.id == pending.0)?;
        Some(self.calls.swap_remove(at))
    }

    /// Nothing more is to be done of a call.
    pub(crate) fn done(&mut self, mut work: Work) {
        let (most, longest) = SPARE;
        if self.spare.len() < most && work.undo.capacity() <= longest {
            work.undo.clear();
            self.spare.push(work.undo);
        }
    }
}

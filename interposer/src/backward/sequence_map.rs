//! The bounded map from an autograd node to the place in the program that made it.
//!
//! PyTorch numbers the nodes that a thread makes densely, and its threads with small integers that are
//! never used again: the two are the key. Each thread that makes nodes has a ring of the newest of
//! them, written by that thread alone and read by all. A ring grows while its nodes come, up to a
//! limit, and all rings together up to another. They stay when their thread ends, until there is no more
//! room for new ones: then that of the thread that ended first goes to a new thread. A node whose place
//! was written over, or whose ring is another thread's by now, is *lost*: never is another node's place
//! given for it.
//!
//! ```text
//!  ring of thread 7, 8 places:   next = 21
//!  ┌────┬────┬────┬────┬────┬────┬────┬────┐
//!  │ 16 │ 17 │ 18 │ 19 │ 20 │ 13 │ 14 │ 15 │   place = node & 7; 13 to 20 are there, 12 is lost
//!  └────┴────┴────┴────┴────┴────┴────┴────┘
//! ```

use core::ptr::{from_ref, null_mut};
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use super::places::Budget;
use super::thread_nodes::{FIRST_PLACES, Found, ThreadNodes};

/// Bytes that all rings may take. New ones take half of it before they take those of ended threads: so
/// the rings of threads that live on can grow.
const LIMIT: usize = 32 << 20;

/// Rings of one chunk of the directory, and chunks: room for a million threads.
const CHUNK: usize = 1 << 10;
type Chunk = [AtomicPtr<ThreadNodes>; CHUNK];

/// The rings of all threads.
pub(super) struct SequenceMap {
    chunks: Box<[AtomicPtr<Chunk>]>,
    /// The newest ring.
    newest: AtomicPtr<ThreadNodes>,
    /// Threads with a ring that have ended, some of them more than once.
    ends: AtomicU64,
    /// Bytes that the rings take, and may take.
    budget: Budget,
}

impl SequenceMap {
    /// Knows no thread.
    pub(super) fn new() -> Self {
        Self::with_limit(LIMIT)
    }

    fn with_limit(limit: usize) -> Self {
        Self {
            chunks: (0..CHUNK).map(|_| AtomicPtr::default()).collect(),
            newest: AtomicPtr::new(null_mut()),
            ends: AtomicU64::new(0),
            budget: Budget::new(limit),
        }
    }

    /// Notes what made a node of the calling thread, to which `nodes` belong.
    #[inline]
    pub(super) fn put(&self, nodes: &ThreadNodes, node: u64, id: u32) {
        nodes.put(&self.budget, node, id);
    }

    /// The thread to which `nodes` belong ends: when there is no more room, another one may have its ring.
    pub(super) fn end(&self, nodes: &ThreadNodes) {
        nodes.end(self.ends.fetch_add(1, Ordering::Relaxed) + 1);
    }

    /// The directory's entry of a thread; the chunk is made if it is missing and `make` says so.
    fn entry(&self, thread: u64, make: bool) -> Option<&'static AtomicPtr<ThreadNodes>> {
        let thread = usize::try_from(thread).ok()?;
        let chunk = self.chunks.get(thread / CHUNK)?;
        let mut known = chunk.load(Ordering::Acquire);
        if known.is_null() && make {
            let new: *mut Chunk =
                Box::into_raw(Box::new([const { AtomicPtr::new(null_mut()) }; CHUNK]));
            let swap = chunk.compare_exchange(known, new, Ordering::AcqRel, Ordering::Acquire);
            known = match swap {
                Ok(_) => new,
                Err(other) => {
                    // SAFETY: made above and given to nobody.
                    drop(unsafe { Box::from_raw(new) });
                    other
                }
            };
        }
        // SAFETY: null, or a chunk that is never given back.
        unsafe { known.as_ref() }?.get(thread % CHUNK)
    }

    /// A ring for a thread that makes its first node here; None if there is no room for one.
    #[cold]
    pub(super) fn nodes_for(&self, thread: u64, node: u64) -> Option<&'static ThreadNodes> {
        let entry = self.entry(thread, true)?;
        // SAFETY: null, or a ring that is never given back.
        if let Some(known) = unsafe { entry.load(Ordering::Acquire).as_ref() } {
            return known.go_on(thread);
        }
        let ring = self
            .make_within(self.budget.limit() / 2, thread, node)
            .or_else(|| self.pass_on(thread, node))
            .or_else(|| self.make_within(self.budget.limit(), thread, node))?;
        entry.store(from_ref(ring).cast_mut(), Ordering::Release);
        Some(ring)
    }

    /// A new ring, if all take no more than `limit` with it.
    fn make_within(&self, limit: usize, thread: u64, node: u64) -> Option<&'static ThreadNodes> {
        if !self.budget.reserve_within(limit, FIRST_PLACES) {
            return None;
        }
        let ring = ThreadNodes::new(thread, node)?;
        let mut newest = self.newest.load(Ordering::Relaxed);
        loop {
            ring.older().store(newest, Ordering::Relaxed);
            let new = from_ref(ring).cast_mut();
            let swap =
                self.newest
                    .compare_exchange(newest, new, Ordering::Release, Ordering::Relaxed);
            match swap {
                Ok(_) => return Some(ring),
                Err(other) => newest = other,
            }
        }
    }

    /// The ring of the thread that ended first, for another one.
    fn pass_on(&self, thread: u64, node: u64) -> Option<&'static ThreadNodes> {
        loop {
            let mut first: Option<(u64, &'static ThreadNodes)> = None;
            let mut at = self.newest.load(Ordering::Acquire);
            // SAFETY: null, or a ring that is never given back.
            while let Some(ring) = unsafe { at.as_ref() } {
                let ended = ring.ended();
                if ended != 0 && first.is_none_or(|(earlier, _)| ended < earlier) {
                    first = Some((ended, ring));
                }
                at = ring.older().load(Ordering::Relaxed);
            }
            let (ended, ring) = first?;
            if ring.take(ended) {
                ring.pass_on(thread, node);
                return Some(ring);
            }
        }
    }

    /// What is known of a node of a thread.
    pub(super) fn get(&self, thread: u64, node: u64) -> Found {
        let ring = self
            .entry(thread, false)
            // SAFETY: null, or a ring that is never given back.
            .and_then(|entry| unsafe { entry.load(Ordering::Acquire).as_ref() });
        ring.map_or(Found::Unknown, |ring| ring.get(thread, node))
    }
}

#[cfg(test)]
mod tests;

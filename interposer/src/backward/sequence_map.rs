//! A bounded map from an autograd node to the place in the program that created it.
//!
//! The key is the thread and the sequence number: PyTorch numbers the nodes of a thread densely, and its
//! threads with small integers that are never reused. Each thread that creates nodes has a ring of its
//! newest nodes, which only that thread writes and all threads read. A ring grows with its nodes, up to a
//! limit, and all rings together up to another. Rings stay when their thread ends, until there is no more
//! room for new ones: then the ring of the thread that ended first is passed to a new thread. A node whose
//! slot was overwritten, or whose ring belongs to another thread by now, is *lost*: the slot of another
//! node is never returned for it.
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

/// Maximum bytes of all rings. New rings use half of it before they reuse those of ended threads, so that
/// the rings of live threads can grow.
const LIMIT: usize = 32 << 20;

/// Rings per chunk of the directory, and number of chunks: room for a million threads.
const CHUNK: usize = 1 << 10;
type Chunk = [AtomicPtr<ThreadNodes>; CHUNK];

/// The rings of all threads.
pub(super) struct SequenceMap {
    chunks: Box<[AtomicPtr<Chunk>]>,
    /// The newest ring.
    newest: AtomicPtr<ThreadNodes>,
    /// The number of ends of threads with a ring; a thread may end several times.
    ends: AtomicU64,
    /// The bytes of the rings, and their maximum.
    budget: Budget,
}

impl SequenceMap {
    /// An empty map.
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

    /// Records the creator of a node of the calling thread, which owns `nodes`.
    #[inline]
    pub(super) fn put(&self, nodes: &ThreadNodes, node: u64, id: u32) {
        nodes.put(&self.budget, node, id);
    }

    /// Records the end of the thread that owns `nodes`: when there is no more room, another thread may
    /// take its ring.
    pub(super) fn end(&self, nodes: &ThreadNodes) {
        nodes.end(self.ends.fetch_add(1, Ordering::Relaxed) + 1);
    }

    /// The directory's entry of a thread; a missing chunk is created if `make` is true.
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
        // SAFETY: null, or a chunk that is never freed.
        unsafe { known.as_ref() }?.get(thread % CHUNK)
    }

    /// A ring for a thread that creates its first node here; None if there is no room for one.
    #[cold]
    pub(super) fn nodes_for(&self, thread: u64, node: u64) -> Option<&'static ThreadNodes> {
        let entry = self.entry(thread, true)?;
        // SAFETY: null, or a ring that is never freed.
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

    /// A new ring, if all rings including it take at most `limit`.
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

    /// The ring of the thread that ended first, for another thread.
    fn pass_on(&self, thread: u64, node: u64) -> Option<&'static ThreadNodes> {
        loop {
            let mut first: Option<(u64, &'static ThreadNodes)> = None;
            let mut at = self.newest.load(Ordering::Acquire);
            // SAFETY: null, or a ring that is never freed.
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

    /// Looks up a node of a thread.
    pub(super) fn get(&self, thread: u64, node: u64) -> Found {
        let ring = self
            .entry(thread, false)
            // SAFETY: null, or a ring that is never freed.
            .and_then(|entry| unsafe { entry.load(Ordering::Acquire).as_ref() });
        ring.map_or(Found::Unknown, |ring| ring.get(thread, node))
    }
}

#[cfg(test)]
mod tests;

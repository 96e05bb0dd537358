//! The newest autograd nodes of one thread: a ring that the thread writes and all threads read.

use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering, fence};

use super::places::{Budget, Places};

/// Slots of a new ring.
pub(super) const FIRST_PLACES: usize = 1 << 12;
/// Slots of the largest ring: about 22,000 layers of a transformer.
pub(super) const MOST_PLACES: usize = 1 << 20;
/// The factor by which a ring grows.
const GROWTH: usize = 4;

/// The result of looking up a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Its place, as passed to [`ThreadNodes::put`].
    Place(u32),
    /// It was created before the thread had a ring: before the recording.
    Before,
    /// Its slot was overwritten, or its thread's ring was passed on.
    Overwritten,
    /// The thread has no ring, or has not created that node: not a node of this program.
    Unknown,
}

/// The newest nodes of one thread.
pub(super) struct ThreadNodes {
    /// The thread that owns it; 0 while it is being passed on.
    thread: AtomicU64,
    places: AtomicPtr<Places>,
    /// The first node of the thread in this ring.
    first: AtomicU64,
    /// One more than its newest.
    next: AtomicU64,
    /// The number of its thread's end among all ends; 0 while it is live.
    ended: AtomicU64,
    /// The ring that was created before it.
    older: AtomicPtr<ThreadNodes>,
}

impl ThreadNodes {
    /// A ring for a thread whose first node is `node`; None if there is no memory. It is never freed.
    pub(super) fn new(thread: u64, node: u64) -> Option<&'static Self> {
        Some(Box::leak(Box::new(Self {
            thread: AtomicU64::new(thread),
            places: AtomicPtr::new(Places::new(FIRST_PLACES)?),
            first: AtomicU64::new(node),
            next: AtomicU64::new(node),
            ended: AtomicU64::new(0),
            older: AtomicPtr::new(null_mut()),
        })))
    }

    /// One more than its newest node.
    #[cfg(test)]
    pub(super) fn next(&self) -> u64 {
        self.next.load(Ordering::Acquire)
    }

    /// The ring that was created before it.
    pub(super) fn older(&self) -> &AtomicPtr<Self> {
        &self.older
    }

    /// The number of its thread's end among all ends; 0 while it is live.
    pub(super) fn ended(&self) -> u64 {
        self.ended.load(Ordering::Relaxed)
    }

    /// Records that its thread ends, as the `count`th: when there is no more room, another thread may take
    /// the ring.
    pub(super) fn end(&self, count: u64) {
        self.ended.store(count, Ordering::Release);
    }

    /// Takes the ring of a thread whose end has that number; false if another thread did.
    pub(super) fn take(&self, ended: u64) -> bool {
        let swap = self
            .ended
            .compare_exchange(ended, 0, Ordering::AcqRel, Ordering::Relaxed);
        swap.is_ok()
    }

    /// Takes the ring again for a thread that creates a node after its end was recorded; None if it belongs
    /// to another thread, or is in use.
    pub(super) fn go_on(&self, thread: u64) -> Option<&Self> {
        let ended = self.ended.load(Ordering::Acquire);
        // It can be taken with that number only while it belongs to the thread of that end.
        let is_own = ended != 0 && self.thread.load(Ordering::Relaxed) == thread;
        (is_own && self.take(ended)).then_some(self)
    }

    /// Passes a taken ring to a thread whose first node is `node`.
    pub(super) fn pass_on(&self, thread: u64, node: u64) {
        // Stored first, so that readers of the later stores detect that they do not belong to the older
        // thread.
        self.thread.store(0, Ordering::Relaxed);
        fence(Ordering::Release);
        self.first.store(node, Ordering::Relaxed);
        self.next.store(node, Ordering::Relaxed);
        self.thread.store(thread, Ordering::Release);
    }

    fn places(&self) -> &'static Places {
        // SAFETY: never null, and never freed.
        unsafe { &*self.places.load(Ordering::Acquire) }
    }

    /// Stores the place of a node of the calling thread, which owns the ring.
    pub(super) fn put(&self, budget: &Budget, node: u64, id: u32) {
        let mut next = self.next.load(Ordering::Relaxed);
        if node < next {
            return;
        }
        let mut places = self.places();
        if node - self.first.load(Ordering::Relaxed) >= places.len() as u64
            && let Some(larger) = self.grow(budget, places, next)
        {
            places = larger;
        }
        // Stored first, so that readers of the later stores detect that the older node is gone.
        self.next.store(node + 1, Ordering::Relaxed);
        fence(Ordering::Release);
        // Skipped nodes have no place.
        next = next.max((node + 1).saturating_sub(places.len() as u64));
        while next < node {
            if let Some(place) = places.at(next) {
                place.store(0, Ordering::Release);
            }
            next += 1;
        }
        if let Some(place) = places.at(node) {
            place.store(id, Ordering::Release);
        }
    }

    /// Adds slots, if allowed. The old ones stay readable, because a reader may be using them.
    #[cold]
    fn grow(&self, budget: &Budget, old: &Places, next: u64) -> Option<&'static Places> {
        let (count, larger) = (old.len(), old.len() * GROWTH);
        if larger > MOST_PLACES || !budget.reserve(larger) {
            return None;
        }
        let new = Places::new(larger)?;
        // SAFETY: just created, and never freed.
        let places = unsafe { &*new };
        let first = self.first.load(Ordering::Relaxed);
        for node in first.max(next.saturating_sub(count as u64))..next {
            if let (Some(from), Some(to)) = (old.at(node), places.at(node)) {
                to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
            }
        }
        self.places.store(new, Ordering::Release);
        Some(places)
    }

    /// Looks up a node of a thread that owns, or owned, the ring.
    pub(super) fn get(&self, thread: u64, node: u64) -> Found {
        loop {
            let pointer = self.places.load(Ordering::Acquire);
            let places = self.places();
            let id = places
                .at(node)
                .map_or(0, |place| place.load(Ordering::Acquire));
            fence(Ordering::Acquire);
            let next = self.next.load(Ordering::Relaxed);
            let first = self.first.load(Ordering::Relaxed);
            fence(Ordering::Acquire);
            if self.thread.load(Ordering::Relaxed) != thread {
                return Found::Overwritten;
            }
            if node >= next {
                return Found::Unknown;
            }
            if node < first {
                return Found::Before;
            }
            if next - node <= places.len() as u64 {
                return Found::Place(id);
            }
            if pointer == self.places.load(Ordering::Acquire) {
                return Found::Overwritten;
            }
        }
    }
}

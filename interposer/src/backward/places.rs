//! The memory of a thread's nodes: the creators of the newest nodes, and the budget for all threads.

use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::alloc::{Layout, alloc_zeroed};

/// Slots, initially zero; their number is a power of two.
pub(super) struct Places {
    ids: &'static [AtomicU32],
}

impl Places {
    /// None if there is no memory.
    pub(super) fn new(count: usize) -> Option<*mut Self> {
        let layout = Layout::array::<AtomicU32>(count).ok()?;
        // SAFETY: the layout is not of size 0.
        let start = unsafe { alloc_zeroed(layout) };
        if start.is_null() {
            return None;
        }
        // SAFETY: zeros are valid numbers; the memory is never freed.
        let ids = unsafe { core::slice::from_raw_parts(start.cast::<AtomicU32>(), count) };
        Some(Box::into_raw(Box::new(Self { ids })))
    }

    /// The number of slots.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }

    /// The slot of a node.
    #[inline]
    pub(super) fn at(&self, node: u64) -> Option<&AtomicU32> {
        self.ids.get(node as usize & (self.ids.len() - 1))
    }
}

/// The bytes that all slots take, and their maximum.
pub(super) struct Budget {
    bytes: AtomicUsize,
    limit: usize,
}

impl Budget {
    pub(super) const fn new(limit: usize) -> Self {
        Self {
            bytes: AtomicUsize::new(0),
            limit,
        }
    }

    /// The bytes that the slots take.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// Reserves room for that many slots; false if there is no room left.
    pub(super) fn reserve(&self, places: usize) -> bool {
        self.reserve_within(self.limit, places)
    }

    pub(super) fn reserve_within(&self, limit: usize, places: usize) -> bool {
        let more = places * size_of::<AtomicU32>();
        if self.bytes.load(Ordering::Relaxed) + more > limit {
            return false;
        }
        let sum = |bytes: usize| (bytes + more <= limit).then_some(bytes + more);
        self.bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum)
            .is_ok()
    }
}

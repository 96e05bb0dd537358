//! The memory of a thread's nodes: what made each of the newest, and how many bytes all threads may take.

use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::alloc::{Layout, alloc_zeroed};

/// Places, zeros at first; their number is a power of two.
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
        // SAFETY: zeros are valid numbers; the memory is never given back.
        let ids = unsafe { core::slice::from_raw_parts(start.cast::<AtomicU32>(), count) };
        Some(Box::into_raw(Box::new(Self { ids })))
    }

    /// How many there are.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }

    /// Where a node's place is.
    #[inline]
    pub(super) fn at(&self, node: u64) -> Option<&AtomicU32> {
        self.ids.get(node as usize & (self.ids.len() - 1))
    }
}

/// The bytes that all places take, and the most that they may.
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

    /// How many bytes the places take.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// Takes room for that many places; false if there is none left.
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

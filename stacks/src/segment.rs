//! The storage of a table: hashes and their ids in memory from the system, 12 bytes per slot.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The number of slots whose memory is returned to the system at once: whole pages of hashes and of ids,
/// also with 64 KiB pages.
const BATCH: usize = 1 << 14;

/// Slots of hashes. A slot is empty while its hash is 0. The position of a hash among the slots is
/// proportional to its value; if that slot is taken, the next empty one is used.
///
/// Never unmapped, so that readers need no lock: [`Segment::move_to`] returns the memory to the system, and
/// readers see zeros.
pub(super) struct Segment {
    base: NonNull<u8>,
    places: usize,
}

// SAFETY: the memory is shared by design, and touched through atomics only.
unsafe impl Send for Segment {}
// SAFETY: as above.
unsafe impl Sync for Segment {}

impl Segment {
    /// A segment of `places` slots, at most [`BATCH`] or a multiple of it, all empty. None if the system has
    /// no memory.
    pub(super) fn new(places: usize) -> Option<Self> {
        // SAFETY: a fresh private mapping at an address of the system's choosing.
        let base = unsafe {
            libc::mmap(
                core::ptr::null_mut(),
                Self::bytes(places),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return None;
        }
        Some(Self {
            base: NonNull::new(base.cast())?,
            places,
        })
    }

    fn bytes(places: usize) -> usize {
        places * (size_of::<AtomicU64>() + size_of::<AtomicU32>())
    }

    pub(super) fn places(&self) -> usize {
        self.places
    }

    /// The number of slots of the next larger segment: twice as many, and a quarter more from 64 Ki slots
    /// on, so that little memory is unused.
    pub(super) fn larger(&self) -> Option<usize> {
        if self.places < 4 * BATCH {
            self.places.checked_mul(2)
        } else {
            self.places
                .checked_add(self.places / 4)?
                .checked_next_multiple_of(BATCH)
        }
    }

    /// The slot at which the search for a hash starts. The search continues to the last slot, then from the
    /// first.
    #[inline]
    fn first_place(&self, hash: u64) -> usize {
        ((u128::from(hash) * self.places as u128) >> 64) as usize
    }

    /// The slot after `place` in a search.
    #[inline]
    fn next_place(&self, place: usize) -> usize {
        if place + 1 == self.places {
            0
        } else {
            place + 1
        }
    }

    /// `place` is less than `places`.
    #[inline]
    fn hash_at(&self, place: usize) -> &AtomicU64 {
        debug_assert!(place < self.places);
        // SAFETY: the mapping begins with `places` hashes and is never unmapped; all accesses are
        // atomic.
        unsafe { self.base.cast::<AtomicU64>().add(place).as_ref() }
    }

    /// `place` is less than `places`.
    #[inline]
    fn id_at(&self, place: usize) -> &AtomicU32 {
        debug_assert!(place < self.places);
        // SAFETY: `places` ids follow the hashes.
        unsafe {
            let ids = self.base.add(self.places * size_of::<AtomicU64>());
            ids.cast::<AtomicU32>().add(place).as_ref()
        }
    }

    /// The id of `hash`. Without a lock, a hash may not be found in a segment that is being moved or was
    /// just moved. An id that is found is always correct.
    #[inline]
    pub(super) fn get(&self, hash: u64) -> Option<u32> {
        let mut place = self.first_place(hash);
        for _ in 0..self.places {
            match self.hash_at(place).load(Ordering::Acquire) {
                0 => return None,
                found if found == hash => {
                    let id = self.id_at(place).load(Ordering::Relaxed);
                    return (id != 0).then_some(id);
                }
                _ => place = self.next_place(place),
            }
        }
        None
    }

    /// Adds a hash that is not in the segment, with an id that is not 0. Only one thread may call this at a
    /// time, and the last empty slot must stay empty.
    pub(super) fn insert(&self, hash: u64, id: u32) {
        let mut place = self.first_place(hash);
        for _ in 0..self.places {
            if self.hash_at(place).load(Ordering::Relaxed) == 0 {
                self.id_at(place).store(id, Ordering::Relaxed);
                self.hash_at(place).store(hash, Ordering::Release);
                return;
            }
            place = self.next_place(place);
        }
    }

    /// Moves all hashes to a larger segment, in almost the same order. Returns the memory to the system
    /// batch by batch, so that both segments together take little more than the larger one. Concurrent
    /// readers of this segment find empty slots.
    pub(super) fn move_to(&self, new: &Segment) {
        for first in (0..self.places).step_by(BATCH) {
            let batch = BATCH.min(self.places - first);
            for place in first..first + batch {
                let hash = self.hash_at(place).load(Ordering::Relaxed);
                if hash != 0 {
                    new.insert(hash, self.id_at(place).load(Ordering::Relaxed));
                }
            }
            self.give_back(first, batch);
        }
    }

    /// Returns the memory of a batch of slots to the system. In a segment smaller than a batch, hashes and
    /// ids share pages and are returned together.
    fn give_back(&self, first: usize, batch: usize) {
        let ids = self.places * size_of::<AtomicU64>();
        let parts = if self.places < BATCH {
            [(0, Self::bytes(self.places)), (0, 0)]
        } else {
            [
                (
                    first * size_of::<AtomicU64>(),
                    batch * size_of::<AtomicU64>(),
                ),
                (
                    ids + first * size_of::<AtomicU32>(),
                    batch * size_of::<AtomicU32>(),
                ),
            ]
        };
        for (start, length) in parts {
            // SAFETY: the mapping is this segment's own; private anonymous pages read as zeros afterwards.
            unsafe {
                libc::madvise(
                    self.base.as_ptr().add(start).cast(),
                    length,
                    libc::MADV_DONTNEED,
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(i: u32) -> u64 {
        u64::from(i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    #[test]
    fn what_is_moved_is_in_the_larger_one_alone() {
        for places in [1 << 12, BATCH, 4 * BATCH, 5 * BATCH] {
            let old = Segment::new(places).unwrap();
            let entries = (places / 5 * 4) as u32;
            (0..entries).for_each(|i| old.insert(spread(i), i + 1));
            assert!((0..entries).all(|i| old.get(spread(i)) == Some(i + 1)));
            let new = Segment::new(old.larger().unwrap()).unwrap();
            assert!(new.places() > places);
            old.move_to(&new);
            assert!((0..entries).all(|i| new.get(spread(i)) == Some(i + 1)));
            assert_eq!(new.get(spread(entries)), None);
            assert!((0..places).all(|place| old.hash_at(place).load(Ordering::Relaxed) == 0));
            assert!((0..places).all(|place| old.id_at(place).load(Ordering::Relaxed) == 0));
        }
    }

    #[test]
    fn the_last_places_go_on_at_the_first() {
        let segment = Segment::new(1 << 12).unwrap();
        for i in 0..100u32 {
            segment.insert(u64::MAX - u64::from(i), i + 1);
        }
        for i in 0..100u32 {
            assert_eq!(segment.get(u64::MAX - u64::from(i)), Some(i + 1));
        }
        assert_eq!(segment.get(u64::MAX - 100), None);
    }
}

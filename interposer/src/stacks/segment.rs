//! The storage of a table: hashes and their ids in memory from the system, 12 bytes a place.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A power of two of places. A place is empty while its hash is 0.
///
/// Never unmapped, so that readers need no lock: [`Segment::retire`] gives its memory back and leaves
/// zeros.
pub(super) struct Segment {
    base: NonNull<u8>,
    places: usize,
}

// SAFETY: the memory is shared by design, and touched through atomics only.
unsafe impl Send for Segment {}
// SAFETY: as above.
unsafe impl Sync for Segment {}

impl Segment {
    /// `places`, a power of two, all empty; None if the system has no memory.
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

    fn hash_at(&self, place: usize) -> &AtomicU64 {
        let place = place & (self.places - 1);
        // SAFETY: the mapping begins with `places` hashes and is never unmapped; all accesses are
        // atomic.
        unsafe { self.base.cast::<AtomicU64>().add(place).as_ref() }
    }

    fn id_at(&self, place: usize) -> &AtomicU32 {
        let place = place & (self.places - 1);
        // SAFETY: `places` ids follow the hashes.
        unsafe {
            let ids = self.base.add(self.places * size_of::<AtomicU64>());
            ids.cast::<AtomicU32>().add(place).as_ref()
        }
    }

    /// The id of `hash`. Without a lock it may be missed in a segment that has just been retired, but
    /// what it finds is always right.
    #[inline]
    pub(super) fn get(&self, hash: u64) -> Option<u32> {
        for step in 0..self.places {
            let place = (hash as usize).wrapping_add(step);
            match self.hash_at(place).load(Ordering::Acquire) {
                0 => return None,
                found if found == hash => {
                    let id = self.id_at(place).load(Ordering::Relaxed);
                    return (id != 0).then_some(id);
                }
                _ => {}
            }
        }
        None
    }

    /// Adds a hash that is not in it, with an id that is not 0. One thread at a time, and never to the
    /// last empty place.
    pub(super) fn insert(&self, hash: u64, id: u32) {
        for step in 0..self.places {
            let place = (hash as usize).wrapping_add(step);
            if self.hash_at(place).load(Ordering::Relaxed) == 0 {
                self.id_at(place).store(id, Ordering::Relaxed);
                self.hash_at(place).store(hash, Ordering::Release);
                return;
            }
        }
    }

    /// All that is in it.
    pub(super) fn entries(&self) -> impl Iterator<Item = (u64, u32)> {
        (0..self.places).filter_map(|place| {
            let hash = self.hash_at(place).load(Ordering::Relaxed);
            (hash != 0).then(|| (hash, self.id_at(place).load(Ordering::Relaxed)))
        })
    }

    /// Gives the memory back to the system. Readers that are still in it find empty places.
    pub(super) fn retire(&self) {
        // SAFETY: the mapping is this segment's own; private anonymous pages read as zeros afterwards.
        unsafe {
            libc::madvise(
                self.base.as_ptr().cast(),
                Self::bytes(self.places),
                libc::MADV_DONTNEED,
            );
        }
    }
}

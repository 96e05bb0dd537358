//! A table from hash to id. Reads take no lock; the table grows by moving to a larger segment.

use core::sync::atomic::{AtomicPtr, Ordering};

use gpumem_capture::Refused;
use gpumem_capture::writer::lock::Lock;

use super::segment::Segment;

/// Places of the first segment.
const FIRST_PLACES: usize = 1 << 12;

/// Locks among which the definers of different hashes are spread.
const STRIPES: usize = 16;

/// Ids by hash. A million of them take at most 18 MiB, also during a move to a larger segment.
pub(super) struct IdTable {
    current: AtomicPtr<Segment>,
    /// The number of hashes in the current segment, including those that are being defined. The lock is held only
    /// while the table changes.
    used: Lock<usize>,
    /// Held while a hash of the stripe is being defined, but not while the definition waits for room. Another
    /// thread with the same hash may define it in that time, if there is room.
    defining: [Lock<()>; STRIPES],
}

impl IdTable {
    pub(super) const fn new() -> Self {
        Self {
            current: AtomicPtr::new(core::ptr::null_mut()),
            used: Lock::new(0),
            defining: [const { Lock::new(()) }; STRIPES],
        }
    }

    #[inline]
    fn segment(&self) -> Option<&'static Segment> {
        // SAFETY: null, or a segment that `grow` leaked.
        unsafe { self.current.load(Ordering::Acquire).as_ref() }
    }

    /// The id of `hash`. None if it has none, and in rare cases while the table is growing.
    #[inline]
    pub(super) fn get(&self, hash: u64) -> Option<u32> {
        self.segment()?.get(hash)
    }

    /// The id of `hash`, which is not 0. If it has none, `define` creates one (not 0) without waiting. If `define`
    /// fails or there is no memory, the next call tries again.
    ///
    /// # Errors
    /// Returns the error of `define`.
    pub(super) fn get_or_define(
        &self,
        hash: u64,
        define: impl FnOnce() -> Result<Option<u32>, Refused>,
    ) -> Result<Option<u32>, Refused> {
        if let Some(id) = self.get(hash) {
            return Ok(Some(id));
        }
        let stripe = (hash >> 32) as usize % STRIPES;
        let _defining = self.defining.get(stripe).map(Lock::lock);
        {
            let mut used = self.used.lock();
            // With the lock held, the look-up finds every hash.
            if let Some(id) = self.get(hash) {
                return Ok(Some(id));
            }
            if self.make_room(*used).is_none() {
                return Ok(None);
            }
            *used += 1;
        }
        let defined = define();
        let mut used = self.used.lock();
        match (&defined, self.segment()) {
            (Ok(Some(id)), Some(segment)) => segment.insert(hash, *id),
            _ => *used -= 1,
        }
        defined
    }

    /// Ensures that another hash can be inserted. The caller holds `used`.
    fn make_room(&self, used: usize) -> Option<()> {
        let old = self.segment();
        let places = match old {
            Some(old) if (used + 1) * 5 <= old.places() * 4 => return Some(()),
            Some(old) => old.larger()?,
            None => FIRST_PLACES,
        };
        let new = Segment::new(places)?;
        if let Some(old) = old {
            old.move_to(&new);
        }
        self.current
            .store(Box::into_raw(Box::new(new)), Ordering::Release);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    /// Defines where there is always room.
    fn define(table: &IdTable, hash: u64, define: impl FnOnce() -> Option<u32>) -> Option<u32> {
        let defined = table.get_or_define(hash, || Ok(define()));
        defined.expect("nothing is refused")
    }

    fn spread(i: u64) -> u64 {
        i.wrapping_mul(0x9e37_79b9_7f4a_7c15).max(1)
    }

    #[test]
    fn a_million_ids_are_found_again() {
        let table = IdTable::new();
        for i in 1..=1_000_000u32 {
            let hash = spread(i.into());
            assert_eq!(table.get(hash), None);
            assert_eq!(define(&table, hash, || Some(i)), Some(i));
        }
        for i in 1..=1_000_000u32 {
            let hash = spread(i.into());
            assert_eq!(table.get(hash), Some(i));
            assert_eq!(define(&table, hash, || unreachable!()), Some(i));
        }
        assert_eq!(table.get(spread(1_000_001)), None);
        let places = table.segment().unwrap().places();
        assert!(places * 12 < 18 << 20, "{places} places");
    }

    #[test]
    fn hashes_with_the_same_high_or_low_bits_are_told_apart() {
        let alike = |i: u32| [u64::from(i) << 40 | 0xfff, u64::from(i) | 0xabc << 52];
        let table = IdTable::new();
        for i in 1..5000u32 {
            let [low, high] = alike(i);
            define(&table, low, || Some(i));
            define(&table, high, || Some(i + 5000));
        }
        for i in 1..5000u32 {
            let [low, high] = alike(i);
            assert_eq!(table.get(low), Some(i));
            assert_eq!(table.get(high), Some(i + 5000));
        }
    }

    #[test]
    fn what_could_not_be_defined_is_tried_again() {
        let table = IdTable::new();
        for _ in 0..20_000 {
            assert_eq!(define(&table, 7, || None), None);
        }
        assert_eq!(table.segment().unwrap().places(), FIRST_PLACES);
        assert_eq!(define(&table, 7, || Some(3)), Some(3));
        assert_eq!(table.get(7), Some(3));
    }

    #[test]
    fn eight_threads_agree_on_every_id() {
        // A prime, so that every stride below meets all hashes.
        const HASHES: u32 = 30_011;
        let table = IdTable::new();
        let (next, definitions) = (AtomicU32::new(1), AtomicU32::new(0));
        let ids = |thread: u64| {
            let mut ids = vec![0; HASHES as usize];
            for step in 0..u64::from(HASHES) {
                // Every thread meets all hashes, in its own order.
                let i = (step * (2 * thread + 1) + thread * 1000) % u64::from(HASHES);
                let id = define(&table, spread(i + 1), || {
                    definitions.fetch_add(1, Ordering::Relaxed);
                    // Some fail, as they do when the ring is full.
                    Some(next.fetch_add(1, Ordering::Relaxed)).filter(|id| id % 50 != 0)
                });
                if let Some(id) = id {
                    ids[i as usize] = id;
                    assert!(table.get(spread(i + 1)).is_none_or(|found| found == id));
                }
            }
            ids
        };
        let all: Vec<Vec<u32>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|t| scope.spawn(move || ids(t))).collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        let mut seen = std::collections::HashSet::new();
        for i in 0..HASHES as usize {
            let mut found = all.iter().map(|ids| ids[i]).filter(|&id| id != 0);
            let id = found.next().unwrap();
            assert!(found.all(|other| other == id), "hash {i} has several ids");
            assert!(seen.insert(id), "id {id} is shared by hashes");
            assert_eq!(table.get(spread(i as u64 + 1)), Some(id));
        }
        assert!(definitions.load(Ordering::Relaxed) >= HASHES);
    }
}

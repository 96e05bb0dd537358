//! Which addresses new memory gets.
//!
//! The kernel's choice depends on holes that other mappings left, threads' stacks and heaps among them, so it differs from
//! run to run. PyTorch's allocator takes the lowest of equal blocks, so it would also give out other blocks. Therefore
//! the driver has its own range, as NVIDIA's has, and fills it by the kernel's rule: the highest gap that fits.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The range. Below it lie programs without ASLR, above it position-independent programs and heaps, and also libraries, unless the
/// stack has no limit.
const RANGE: (u64, u64) = (0x1000_0000_0000, 0x5000_0000_0000);

static USED: Mutex<Used> = Mutex::new(Used::new());

/// The addresses in use, of the whole process.
pub fn used() -> MutexGuard<'static, Used> {
    USED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ranges in use: start and end, disjoint, not adjacent.
#[derive(Debug)]
pub struct Used(BTreeMap<u64, u64>);

impl Used {
    const fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// The highest free multiple of `align` in the driver's range at which `length` bytes are free.
    pub fn highest_gap(&self, length: u64, align: u64) -> Option<u64> {
        let fits = |from: u64, to: u64| {
            let base = to.checked_sub(length)? / align * align;
            (base >= from).then_some(base)
        };
        let mut top = RANGE.1;
        for (&start, &end) in self.0.range(..RANGE.1).rev() {
            if let Some(base) = fits(end.max(RANGE.0), top) {
                return Some(base);
            }
            top = start;
        }
        fits(RANGE.0, top)
    }

    /// Puts a range that was free into use.
    pub fn insert(&mut self, base: u64, length: u64) {
        let (mut start, mut end) = (base, base + length);
        if let Some((&before, &until)) = self.0.range(..=start).next_back()
            && until >= start
        {
            start = before;
            end = end.max(until);
        }
        while let Some((&after, &until)) = self.0.range(start..=end).next_back() {
            self.0.remove(&after);
            end = end.max(until);
        }
        self.0.insert(start, end);
    }

    /// Frees a range, or what of it is in use.
    pub fn remove(&mut self, base: u64, length: u64) {
        let end = base + length;
        while let Some((&start, &until)) = self
            .0
            .range(..end)
            .next_back()
            .filter(|(_, until)| **until > base)
        {
            self.0.remove(&start);
            if start < base {
                self.0.insert(start, base);
            }
            if until > end {
                self.0.insert(end, until);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOP: u64 = RANGE.1;

    #[test]
    fn the_highest_gap_is_filled_first() {
        let mut used = Used::new();
        let take = |used: &mut Used, length, align| {
            let base = used.highest_gap(length, align).expect("a gap");
            used.insert(base, length);
            TOP - base
        };
        assert_eq!(take(&mut used, 0x1000, 0x1000), 0x1000);
        assert_eq!(take(&mut used, 0x20_0000, 0x20_0000), 0x40_0000);
        assert_eq!(take(&mut used, 0x1000, 0x1000), 0x2000);
        used.remove(TOP - 0x3f_0000, 0x1_0000);
        assert_eq!(take(&mut used, 0x20_0000, 0x1000), 0x60_0000);
        assert_eq!(take(&mut used, 0x1f_e000, 0x1000), 0x20_0000);
        assert_eq!(take(&mut used, 0x1_0000, 0x1000), 0x3f_0000);
    }

    #[test]
    fn ranges_are_joined_and_split() {
        let mut used = Used::new();
        for base in [0, 20, 10] {
            used.insert(base, 10);
        }
        assert_eq!(used.0, BTreeMap::from([(0, 30)]));
        used.remove(5, 10);
        used.remove(28, 10);
        assert_eq!(used.0, BTreeMap::from([(0, 5), (15, 28)]));
        used.insert(5, 10);
        used.remove(0, 100);
        assert!(used.0.is_empty());
    }

    #[test]
    fn a_full_range_has_no_gap() {
        let mut used = Used::new();
        used.insert(RANGE.0, RANGE.1 - RANGE.0 - 0x1000);
        assert_eq!(used.highest_gap(0x2000, 0x1000), None);
        assert_eq!(used.highest_gap(u64::MAX, 0x1000), None);
        assert_eq!(used.highest_gap(0x1000, 0x1000), Some(TOP - 0x1000));
    }
}

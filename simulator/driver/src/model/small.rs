//! Small allocations share physical pages.
//!
//! The model follows an H100 (docs/simulator.md). A request of up to half a page (1 MiB of 2 MiB)
//! is rounded up to 512 bytes and taken from a page that small allocations of the same context
//! share, first fit, the page with the lowest address first. A page without live allocations is
//! freed. Larger requests get separate whole pages.

use super::ranges::FreeRanges;
use std::collections::BTreeMap;

/// Step and alignment of small allocations, in bytes.
pub const SMALL_STEP: u64 = 512;

/// The shared pages of one context, by address.
#[derive(Debug, Default)]
pub struct SmallPages {
    pages: BTreeMap<u64, FreeRanges>,
}

impl SmallPages {
    /// Takes `bytes` from a page that has room.
    pub fn take(&mut self, bytes: u64) -> Option<u64> {
        let step = bytes.next_multiple_of(SMALL_STEP);
        self.pages
            .iter_mut()
            .find_map(|(base, page)| Some(base + page.take(step)?))
    }

    /// Adds a fresh page.
    pub fn add_page(&mut self, base: u64, page_bytes: u64) {
        self.pages.insert(base, FreeRanges::new(page_bytes));
    }

    /// Frees an allocation; returns the address of its page if that is now unused.
    pub fn give(&mut self, address: u64, bytes: u64) -> Option<u64> {
        let step = bytes.next_multiple_of(SMALL_STEP);
        let (&base, page) = self.pages.range_mut(..=address).next_back()?;
        page.give(address - base, step);
        if !page.is_unused() {
            return None;
        }
        self.pages.remove(&base);
        Some(base)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_allocations_share_a_page_until_the_last_is_gone() {
        let mut small = SmallPages::default();
        assert_eq!(small.take(1), None);
        small.add_page(0x20_0000, 0x20_0000);
        assert_eq!(small.take(1), Some(0x20_0000));
        assert_eq!(small.take(513), Some(0x20_0200));
        assert_eq!(small.take(1), Some(0x20_0600));
        assert_eq!(small.give(0x20_0200, 513), None);
        assert_eq!(small.give(0x20_0000, 1), None);
        assert_eq!(small.give(0x20_0600, 1), Some(0x20_0000));
        assert_eq!(small.take(1), None);
    }
}

//! Pages under plain device memory.
//!
//! The driver allocates pages of 2 MiB and lets small blocks share them. A page is held from the first block that
//! touches it to the last one, which the addresses determine.

use rustc_hash::FxHashMap;

/// Bytes of a page, of every card since Pascal.
const PAGE: u64 = 2 << 20;

/// `bytes` in whole pages.
pub(crate) fn whole(bytes: u64) -> u64 {
    bytes.checked_next_multiple_of(PAGE).unwrap_or(bytes)
}

/// Addresses and sizes of the memory that the card allocates or frees for one block; zero bytes: unused.
type Spans = [(u64, u64); 3];

/// The pages that a block touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Touched {
    /// The pages that only the block uses: the first, and the end.
    own: (u64, u64),
    /// The pages that it covers partly, at its start and end; 0: none.
    partial: [u64; 2],
}

impl Touched {
    fn by(ptr: u64, bytes: u64) -> Self {
        let end = ptr.saturating_add(bytes);
        let (first, last) = (ptr / PAGE * PAGE, end / PAGE * PAGE);
        let begins_inside = first != ptr;
        let own = (if begins_inside { first + PAGE } else { first }, last);
        let head = if begins_inside { first } else { 0 };
        let tail = if last != end && last != head { last } else { 0 };
        Self {
            own: (own.0, own.1.max(own.0)),
            partial: [head, tail],
        }
    }

    /// The changed pages; `changes` returns whether a partial page changes.
    fn spans(self, mut changes: impl FnMut(u64) -> bool) -> Spans {
        let (start, end) = self.own;
        let mut span = |page: u64| match page != 0 && changes(page) {
            true => (page, PAGE),
            false => (page, 0),
        };
        let [head, tail] = self.partial;
        [(start, end - start), span(head), span(tail)]
    }
}

/// The number of blocks on each page that several blocks may touch, by the page's address.
#[derive(Debug, Default)]
pub(crate) struct Pages(FxHashMap<u64, u32>);

impl Pages {
    /// Adds a block; returns the memory that the card allocates for it.
    pub(crate) fn hold(&mut self, ptr: u64, bytes: u64) -> Spans {
        Touched::by(ptr, bytes).spans(|page| {
            let blocks = self.0.entry(page).or_default();
            *blocks += 1;
            *blocks == 1
        })
    }

    /// Removes a block; returns the memory that the card frees with it.
    pub(crate) fn release(&mut self, ptr: u64, bytes: u64) -> Spans {
        Touched::by(ptr, bytes).spans(|page| {
            let Some(blocks) = self.0.get_mut(&page) else {
                return false;
            };
            *blocks -= 1;
            let is_last = *blocks == 0;
            if is_last {
                self.0.remove(&page);
            }
            is_last
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_of_whole_pages_shares_none() {
        let touched = Touched::by(8 * PAGE, 3 * PAGE);
        assert_eq!(touched.own, (8 * PAGE, 11 * PAGE));
        assert_eq!(touched.partial, [0, 0]);
    }

    #[test]
    fn a_small_block_shares_its_one_page() {
        let touched = Touched::by(8 * PAGE + 512, 512);
        assert_eq!(touched.own.0, touched.own.1);
        assert_eq!(touched.partial, [8 * PAGE, 0]);
        let at_the_start = Touched::by(8 * PAGE, 512);
        assert_eq!(at_the_start.own.0, at_the_start.own.1);
        assert_eq!(at_the_start.partial, [0, 8 * PAGE]);
    }

    #[test]
    fn a_block_across_pages_shares_both_ends() {
        let touched = Touched::by(8 * PAGE + 512, 3 * PAGE);
        assert_eq!(touched.own, (9 * PAGE, 11 * PAGE));
        assert_eq!(touched.partial, [8 * PAGE, 11 * PAGE]);
        let two = Touched::by(9 * PAGE - 512, 1024);
        assert_eq!(two.own.0, two.own.1);
        assert_eq!(two.partial, [8 * PAGE, 9 * PAGE]);
    }

    #[test]
    fn a_page_is_given_with_its_first_block_and_taken_back_with_its_last() {
        let mut pages = Pages::default();
        let (page, none) = ((8 * PAGE, PAGE), (8 * PAGE, 0));
        assert_eq!(pages.hold(8 * PAGE, 512)[2], page);
        assert_eq!(pages.hold(8 * PAGE + 512, 512)[1], none);
        assert_eq!(pages.release(8 * PAGE, 512)[2], none);
        assert_eq!(pages.release(8 * PAGE + 512, 512)[1], page);
    }

    #[test]
    fn sizes_in_whole_pages() {
        assert_eq!(whole(1), PAGE);
        assert_eq!(whole(PAGE), PAGE);
        assert_eq!(whole(PAGE + 1), 2 * PAGE);
    }
}

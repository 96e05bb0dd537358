//! Pages under plain device memory.
//!
//! The driver gives memory in pages of 2 MiB and lets small blocks share them. A page is held from the
//! first block that touches it to the last one that does, which the addresses tell. The end of a page's last block
//! and the beginning of its next one are recorded in the order in which they are counted here.

use std::collections::BTreeMap;

use gpumem_capture::{DeviceOrdinal, EventFlags, EventKind};

use super::cause::{Cause, Change};
use gpumem_capture::writer::lock::{Guard, Lock};

/// Bytes of a page, of every card since Pascal.
const PAGE: u64 = 2 << 20;

/// Blocks on each page that more than one block may touch, by the page's address.
type Shared = BTreeMap<u64, u32>;

fn shared() -> Guard<'static, Shared> {
    static SHARED: Lock<Shared> = Lock::new(BTreeMap::new());
    SHARED.lock()
}

/// `bytes` in whole pages.
pub(super) fn whole(bytes: u64) -> u64 {
    bytes.checked_next_multiple_of(PAGE).unwrap_or(bytes)
}

/// The pages that a block touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Touched {
    /// The pages that are all its own, from the first to past the last.
    own: (u64, u64),
    /// The pages that it covers in part, with which it begins and ends; 0: none.
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
}

fn change(bytes: u64) -> Change {
    Change {
        bytes,
        aux: 0,
        flags: EventFlags::NONE,
    }
}

/// A block has become live.
pub(super) fn gained(cause: &Cause<'_>, device: DeviceOrdinal, ptr: u64, bytes: u64) {
    let touched = Touched::by(ptr, bytes);
    let (start, end) = touched.own;
    if end > start {
        cause.record(EventKind::ALLOC, device, start, change(end - start));
    }
    for page in touched.partial.into_iter().filter(|page| *page != 0) {
        cause.in_order(|attempt| {
            let mut shared = shared();
            let blocks = shared.get(&page).copied().unwrap_or(0);
            if blocks == 0 {
                let (kind, change) = (EventKind::ALLOC, change(PAGE));
                cause.record_without_waiting(attempt, kind, device, page, change)?;
            }
            shared.insert(page, blocks + 1);
            Ok(())
        });
    }
}

/// A block is about to be released.
pub(super) fn lost(cause: &Cause<'_>, device: DeviceOrdinal, ptr: u64, bytes: u64) {
    let touched = Touched::by(ptr, bytes);
    let (start, end) = touched.own;
    if end > start {
        cause.record(EventKind::FREE, device, start, change(end - start));
    }
    for page in touched.partial.into_iter().filter(|page| *page != 0) {
        cause.in_order(|attempt| {
            let mut shared = shared();
            match shared.get(&page).copied() {
                None => {}
                Some(1) => {
                    let (kind, change) = (EventKind::FREE, change(PAGE));
                    cause.record_without_waiting(attempt, kind, device, page, change)?;
                    shared.remove(&page);
                }
                Some(blocks) => {
                    shared.insert(page, blocks - 1);
                }
            }
            Ok(())
        });
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
    fn sizes_in_whole_pages() {
        assert_eq!(whole(1), PAGE);
        assert_eq!(whole(PAGE), PAGE);
        assert_eq!(whole(PAGE + 1), 2 * PAGE);
    }
}

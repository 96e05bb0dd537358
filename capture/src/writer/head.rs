//! The head of the ring's memory: copies of this process's state for readers of the capture. This process only writes
//! them and never depends on their content.

use core::mem::offset_of;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use crate::checksum::Checks;
use crate::header::StaticHeader;
use crate::layout::{self, LOSS_RANGES, dynamic};
use crate::namespaces::Namespaces;
use crate::ring_file::{self, HEADER_OFFSET};
use crate::{CounterValues, index};

/// A value on a separate cache line.
#[repr(C, align(64))]
pub(super) struct Line<T>(pub(super) T);

/// A number with a checksum: [`crate::index`].
#[repr(transparent)]
pub(super) struct Sealed(AtomicU64);

impl Sealed {
    pub(super) fn store(&self, value: u64, nonce: u64) {
        self.0.store(index::seal(value, nonce), Ordering::Release);
    }
}

/// The position of the drain: the tail of the ring and the end of the pages.
#[repr(C)]
pub(super) struct Drained {
    pub(super) tail: Sealed,
    pub(super) pages_end: Sealed,
}

/// Three fields and their checksum: written rarely, by one thread at a time.
#[repr(C)]
pub(super) struct Checked {
    words: [AtomicU64; 3],
    check: AtomicU64,
}

impl Checked {
    /// Stores the fields; `place` is this object's offset in the head.
    pub(super) fn store(&self, checks: &Checks, place: u64, facts: [u64; 3]) {
        for (to, from) in self.words.iter().zip(facts) {
            to.store(from, Ordering::Relaxed);
        }
        self.check
            .store(checks.words(place, &facts), Ordering::Release);
    }

    /// Resets it to the state before the first store.
    pub(super) fn clear(&self) {
        self.check.store(0, Ordering::Relaxed);
        for word in &self.words {
            word.store(0, Ordering::Relaxed);
        }
    }
}

/// The mapped part before the ring.
#[repr(C, align(4096))]
pub(super) struct Head {
    /// For a ring in a separate file: [`crate::ring_file`].
    preamble: [AtomicU64; 512],
    /// Every record before this is committed.
    pub(super) known: Line<Sealed>,
    pub(super) drained: Line<Drained>,
    /// State (1: clean exit), time, end of the committed records.
    pub(super) end: Line<Checked>,
    /// errno, failures so far, time of the first.
    pub(super) drain_error: Line<Checked>,
    /// Events and definitions lost, and the number of updates: odd updates go to the second copy, so that one copy is
    /// always complete.
    pub(super) lost: Line<[Checked; 2]>,
    /// The position of the counters in the order of records.
    pub(super) counted: Line<Checked>,
    /// For a capture's file without a ring: the time of the journal, its offset, and whether it is complete.
    journal: Line<Checked>,
    /// The number of the first operation in the queue that is not done, and its position.
    pub(super) queue: Line<Checked>,
    /// First time, last time, events.
    pub(super) loss_table: [Checked; LOSS_RANGES],
    unused_end: [AtomicU64; (4096 - 512 - 32 * LOSS_RANGES) / 8],
    rows: [RowCopy; layout::COUNTER_ROWS as usize],
}

const _: () = {
    assert!(offset_of!(Head, known) as u64 == dynamic::KNOWN);
    assert!(offset_of!(Head, drained) as u64 == dynamic::TAIL);
    assert!(dynamic::TAIL + 8 == dynamic::PAGES_END);
    assert!(offset_of!(Head, end) as u64 == dynamic::END);
    assert!(offset_of!(Head, drain_error) as u64 == dynamic::DRAIN_ERROR);
    assert!(offset_of!(Head, lost) as u64 == dynamic::LOST);
    assert!(offset_of!(Head, counted) as u64 == dynamic::COUNTED);
    assert!(offset_of!(Head, journal) as u64 == dynamic::JOURNAL);
    assert!(offset_of!(Head, queue) as u64 == dynamic::QUEUE);
    assert!(offset_of!(Head, loss_table) as u64 == dynamic::LOSS_TABLE);
    assert!(offset_of!(Head, rows) as u64 == layout::COUNTERS_OFFSET);
    assert!(size_of::<Head>() as u64 == layout::RING_OFFSET);
};

impl Head {
    #[inline]
    pub(super) fn row(&self, number: u64) -> Option<&RowCopy> {
        self.rows.get(number as usize)
    }

    /// Records the owner of the ring. Does nothing for a ring in the capture, which already has it.
    pub(super) fn introduce(&self, header: &StaticHeader, path: &Path, queue_bytes: usize) {
        if header.has_ring() {
            return;
        }
        let namespaces = (header.pid != 0).then(Namespaces::own).flatten();
        let path = path.as_os_str().as_bytes();
        let mut bytes = ring_file::preamble(path, queue_bytes as u64, namespaces).to_vec();
        debug_assert_eq!(bytes.len(), HEADER_OFFSET);
        bytes.extend_from_slice(&header.encode());
        for (word, bytes) in self.preamble.iter().zip(bytes.chunks_exact(8)) {
            let mut le = [0; 8];
            le.copy_from_slice(bytes);
            word.store(u64::from_le_bytes(le), Ordering::Relaxed);
        }
    }

    /// The current bytes from the dynamic header on.
    pub(super) fn image(&self) -> Vec<u8> {
        let start = layout::DYNAMIC_OFFSET as usize;
        let words = (layout::RING_OFFSET as usize - start) / 8;
        let first = core::ptr::from_ref(self).cast::<u8>().wrapping_add(start);
        // SAFETY: the rest of the head is words that are stored as atomics, or not at all.
        let words = unsafe { core::slice::from_raw_parts(first.cast::<AtomicU64>(), words) };
        let loaded = words.iter().map(|word| word.load(Ordering::Relaxed));
        loaded.flat_map(u64::to_le_bytes).collect()
    }
}

/// The copy of one row of counters.
#[repr(C, align(64))]
pub(super) struct RowCopy {
    values: [AtomicU64; 5],
    version: AtomicU32,
    unused: AtomicU32,
    check: AtomicU64,
    unused_end: AtomicU64,
}

impl RowCopy {
    /// Stores the figures after that many changes; `place` is the row's offset in the head.
    pub(super) fn store(&self, values: &CounterValues, changes: u32, checks: &Checks, place: u64) {
        let version = changes.wrapping_mul(2);
        for (to, from) in self.values.iter().zip(values.words()) {
            to.store(from, Ordering::Relaxed);
        }
        let [a, b, c, d, e] = values.words();
        let check = checks.words(place, &[a, b, c, d, e, u64::from(version)]);
        self.check.store(check, Ordering::Relaxed);
        self.version.store(version, Ordering::Release);
    }
}

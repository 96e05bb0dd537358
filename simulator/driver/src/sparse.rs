//! Copies that skip zeros. A write allocates host memory, so pages that were never touched in the
//! source stay untouched in the target.

use crate::host::{self, HOST_PAGE};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Copies from this size on skip zeros.
pub const WORTH_LOOKING: u64 = 1 << 20;
/// Runs of zeros from this size on free the target's pages; shorter ones are written.
const WORTH_A_CALL: u64 = 16 * HOST_PAGE;
/// Number of page map entries to read at once: 2 MiB of memory.
const ENTRIES: usize = 512;
/// Flags of a page in memory or in swap space.
const TOUCHED: u64 = 3 << 62;

static ZEROS: [u8; HOST_PAGE as usize] = [0; HOST_PAGE as usize];

/// What is known about memory without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// Zeros.
    Zeros,
    /// Private memory of this process, whose pages are zeros until they are first touched.
    Private,
    /// Unknown contents.
    Anything,
}

/// A part of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Its size.
    pub bytes: u64,
    /// What is known of it.
    pub contents: Contents,
}

/// The owner of a copy's target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The simulated driver: whole pages of zeros can be returned to the host.
    Own,
    /// The program.
    Programs,
}

/// Copies contiguous `pieces` that start at `from`. The ranges must not overlap.
pub fn copy(to: u64, from: u64, pieces: &[Piece], target: Target) {
    let mut runs = Runs {
        to,
        from,
        target,
        bytes: 0,
        zeros: false,
    };
    let mut at = from;
    for piece in pieces {
        match piece.contents {
            Contents::Zeros => runs.add(piece.bytes, true),
            Contents::Private => by_page_map(at, piece.bytes, &mut runs),
            Contents::Anything => by_page(at, piece.bytes, &mut runs),
        }
        at += piece.bytes;
    }
    runs.end();
}

/// Merges adjacent parts that are copied in the same way.
struct Runs {
    to: u64,
    from: u64,
    target: Target,
    bytes: u64,
    zeros: bool,
}

impl Runs {
    fn add(&mut self, bytes: u64, zeros: bool) {
        if zeros != self.zeros {
            self.end();
            self.zeros = zeros;
        }
        self.bytes += bytes;
    }

    fn end(&mut self) {
        match (self.zeros, self.target) {
            (false, _) => host::copy(self.to, self.from, self.bytes),
            (true, Target::Own) => host::zero_from(self.to, self.bytes, WORTH_A_CALL),
            (true, Target::Programs) => zero_where_needed(self.to, self.bytes),
        }
        self.to += self.bytes;
        self.from += self.bytes;
        self.bytes = 0;
    }
}

/// Reads each page.
fn by_page(from: u64, bytes: u64, runs: &mut Runs) {
    for (at, length) in pages(from, bytes) {
        runs.add(length, is_zeros(at, length));
    }
}

/// Reads each page that has been touched. Reading other pages would allocate memory for them.
fn by_page_map(from: u64, bytes: u64, runs: &mut Runs) {
    // Opened for each copy: a child process that inherited it would still see this process.
    let Ok(map) = File::open("/proc/self/pagemap") else {
        return by_page(from, bytes, runs);
    };
    let mut entries = [0u8; 8 * ENTRIES];
    let mut first = u64::MAX;
    for (at, length) in pages(from, bytes) {
        let page = at / HOST_PAGE;
        if first == u64::MAX || page - first >= ENTRIES as u64 {
            first = page;
            let last = (from + bytes).div_ceil(HOST_PAGE);
            let wanted = 8 * (last - first).min(ENTRIES as u64) as usize;
            if map
                .read_exact_at(&mut entries[..wanted], 8 * first)
                .is_err()
            {
                return by_page(at, from + bytes - at, runs);
            }
        }
        let entry = &entries[8 * (page - first) as usize..][..8];
        let touched = entry
            .iter()
            .rev()
            .fold(0u64, |all, byte| all << 8 | u64::from(*byte))
            & TOUCHED
            != 0;
        runs.add(length, !touched || is_zeros(at, length));
    }
}

/// Divides a range into the parts on each page.
fn pages(from: u64, bytes: u64) -> impl Iterator<Item = (u64, u64)> {
    let end = from + bytes;
    let mut at = from;
    std::iter::from_fn(move || {
        let start = at;
        at = end.min((start / HOST_PAGE + 1) * HOST_PAGE);
        (start < end).then_some((start, at - start))
    })
}

fn is_zeros(at: u64, bytes: u64) -> bool {
    // SAFETY: callers pass at most a page of memory that a copy is allowed to read.
    unsafe { libc::memcmp(at as *const _, ZEROS.as_ptr().cast(), bytes as usize) == 0 }
}

/// Writes zeros, except to pages that are already zero. Reading a page that was never written
/// allocates no memory.
fn zero_where_needed(to: u64, bytes: u64) {
    for (at, length) in pages(to, bytes) {
        if !is_zeros(at, length) {
            host::fill(at, 1, 0, length);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::{self, memory_file};
    use crate::host::Access;
    use std::os::fd::{AsRawFd, OwnedFd};

    const BYTES: u64 = 4 << 20;

    fn private() -> u64 {
        host::map(BYTES, HOST_PAGE, Access::ReadWrite).expect("address space")
    }

    fn shared() -> (u64, OwnedFd) {
        let base = private();
        let file = memory_file("test", BYTES).expect("a file in memory");
        assert!(host::map_file_over(base, BYTES, file.as_raw_fd(), 0));
        host::protect(base, BYTES, Access::ReadWrite);
        (base, file)
    }

    /// Pages of a range that use host memory.
    fn resident(base: u64) -> usize {
        let mut pages = [0u8; (BYTES / HOST_PAGE) as usize];
        // SAFETY: a local mapping, and room for one byte per page.
        let done = unsafe { libc::mincore(base as *mut _, BYTES as usize, pages.as_mut_ptr()) };
        assert_eq!(done, 0);
        pages.iter().filter(|page| **page & 1 != 0).count()
    }

    fn bytes(base: u64) -> Vec<u8> {
        let mut seen = vec![0; BYTES as usize];
        host::copy(seen.as_mut_ptr() as u64, base, BYTES);
        seen
    }

    fn whole(contents: Contents) -> [Piece; 1] {
        [Piece {
            bytes: BYTES,
            contents,
        }]
    }

    #[test]
    fn pages_that_nobody_touched_are_not_copied() {
        let (from, to) = (private(), private());
        host::fill(from + 100, 1, 7, 3);
        host::fill(from + BYTES - 1, 1, 8, 1);
        copy(to, from, &whole(Contents::Private), Target::Own);
        assert_eq!((resident(from), resident(to)), (2, 2));
        assert_eq!(bytes(from), bytes(to));
    }

    #[test]
    fn a_targets_pages_are_given_back_and_its_edges_stay() {
        let (in_file, _file) = shared();
        for to in [private(), in_file] {
            let from = private();
            host::fill(to, 1, 9, BYTES);
            host::fill(from + BYTES / 2, 1, 7, HOST_PAGE);
            let part = Piece {
                bytes: BYTES - 200,
                contents: Contents::Private,
            };
            copy(to + 100, from + 100, &[part], Target::Own);
            let mut expected = bytes(from);
            expected[..100].fill(9);
            expected[BYTES as usize - 100..].fill(9);
            assert!(resident(to) <= 4, "{} pages", resident(to));
            assert_eq!(bytes(to), expected);
        }
    }

    #[test]
    fn addresses_need_not_lie_alike_on_their_pages() {
        let (from, to) = (private(), private());
        host::fill(to, 1, 9, BYTES);
        host::fill(from + 5000, 1, 7, 10_000);
        let part = Piece {
            bytes: BYTES - 5000,
            contents: Contents::Private,
        };
        copy(to + 513, from + 3, &[part], Target::Own);
        assert_eq!(
            bytes(to)[513..513 + BYTES as usize - 5000],
            bytes(from)[3..3 + BYTES as usize - 5000]
        );
        assert!(bytes(to)[..513].iter().all(|byte| *byte == 9));
    }

    #[test]
    fn zeros_that_were_written_are_left_out_too() {
        let (from, to) = (private(), private());
        host::fill(from, 1, 0, BYTES);
        copy(to, from, &whole(Contents::Anything), Target::Own);
        assert_eq!(resident(to), 0);
    }

    #[test]
    fn holes_of_a_file_are_not_read() {
        let ((from, file), to) = (shared(), private());
        host::fill(from + BYTES / 2, 1, 7, 1);
        let pieces: Vec<Piece> = files::data(file.as_raw_fd(), 0, BYTES);
        let page = |contents, bytes| Piece { bytes, contents };
        assert_eq!(
            pieces,
            [
                page(Contents::Zeros, BYTES / 2),
                page(Contents::Anything, HOST_PAGE),
                page(Contents::Zeros, BYTES / 2 - HOST_PAGE)
            ]
        );
        copy(to, from, &pieces, Target::Own);
        assert_eq!((resident(from), resident(to)), (1, 1));
        assert_eq!(bytes(to)[BYTES as usize / 2], 7);
    }

    #[test]
    fn the_programs_memory_is_zeroed_where_it_is_not() {
        let (from, to) = (private(), private());
        host::fill(to + BYTES / 2, 1, 9, 10);
        copy(to, from, &whole(Contents::Private), Target::Programs);
        assert_eq!(bytes(to), vec![0; BYTES as usize]);
        assert_eq!(resident(from), 0);
    }
}

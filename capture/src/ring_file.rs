//! The file in memory that holds a running process's ring, separate from its capture.
//!
//! | offset | size | what |
//! |---|---|---|
//! | 0 | 8 | magic: 89 `GPURNG` 0a; 89 `GPURN-` 0a if a part of it was its process's own memory: it is of no use then |
//! | 8 | 4 | version: 1 |
//! | 12 | 4 | bytes of the capture's path; 0: the capture has none yet |
//! | 16 | 8 | bytes of the queue |
//! | 24 | 4 | CRC32 of bytes 0–24 and of the path |
//! | 28 | 4 | CRC32 of bytes 32–64 |
//! | 32 | 32 | where its process runs: [`Namespaces`] |
//! | 64 | 1984 | the capture's path |
//! | 2048 | 512 | the capture's static header |
//! | 4096 | 20480 | dynamic header and counters, as in a capture |
//! | 24576 | 64 × slots | ring |
//! | 24576 + 64 × slots | Q | queue: what is still to be written to the capture |
//!
//! The queue holds consecutive operations: 64 bytes of header and the bytes for the capture, padded to 64. An operation
//! that does not fit before the queue's end is at its start. The dynamic header has the first operation that is not
//! written.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 8 | magic: `GPUMQOP1` |
//! | 8 | 8 | number, from 0 |
//! | 16 | 8 | offset in the capture |
//! | 24 | 4 | bytes |
//! | 28 | 4 | CRC32 of the bytes |
//! | 32 | 8 | where the capture's pages end once it is written |
//! | 40 | 8 | records before this seq are then in the capture's pages |
//! | 48 | 8 | zero |
//! | 56 | 8 | check of the seven words before |

use std::fs::File;
use std::os::fd::AsRawFd as _;

use crate::checksum::Checks;
use crate::namespaces::Namespaces;

/// Prefix of the names of ring files in a folder in memory.
pub(crate) const NAME_PREFIX: &str = "gpumem-ring-";
pub(crate) const MAGIC: [u8; 8] = *b"\x89GPURNG\n";
/// In place of [`MAGIC`]: a part of the ring or of its queue was its process's own memory.
pub(crate) const PARTIAL: [u8; 8] = *b"\x89GPURN-\n";
pub(crate) const VERSION: u32 = 1;
const NAMESPACES_CRC_OFFSET: usize = 28;
const NAMESPACES_OFFSET: usize = 32;
pub(crate) const PATH_OFFSET: usize = 64;
pub(crate) const PATH_BYTES: usize = 1984;
/// Offset of the copy of the capture's static header.
pub(crate) const HEADER_OFFSET: usize = 2048;

/// Bytes of an operation's header, and the alignment of operations.
pub(crate) const OP_BYTES: usize = 64;
const OP_MAGIC: u64 = u64::from_le_bytes(*b"GPUMQOP1");

/// The whole file, for `fcntl` on locks of open file descriptions (Linux 3.15).
fn lock_of(kind: i32) -> libc::flock {
    // SAFETY: an all-zero structure is a valid one: from the start of the file to its end.
    let mut lock: libc::flock = unsafe { core::mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock
}

/// Locks a ring as long as any process has it open by this description or has mapped it: closing the descriptor does
/// not unlock it. Readers check it with [`is_locked`], and use `flock` among each other.
pub(crate) fn lock(file: &File) {
    let lock = lock_of(libc::F_RDLCK);
    // Without the lock, readers in other containers treat the process as ended.
    // SAFETY: the descriptor is open, the structure valid; the call does not wait.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) };
}

/// Whether another open file description has it locked.
pub(crate) fn is_locked(file: &File) -> bool {
    let mut lock = lock_of(libc::F_WRLCK);
    // SAFETY: the descriptor is open, the structure valid for writing.
    let done = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &raw mut lock) };
    done == 0 && lock.l_type != libc::F_UNLCK as libc::c_short
}

/// Data to be written to the capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Op {
    pub(crate) number: u64,
    /// The offset in the capture.
    pub(crate) offset: u64,
    pub(crate) bytes: u32,
    pub(crate) crc: u32,
    /// The end of the capture's pages once it is written.
    pub(crate) pages_end: u64,
    /// Records before this are then in pages.
    pub(crate) next: u64,
}

impl Op {
    /// Its length in the queue.
    pub(crate) fn length(&self) -> usize {
        OP_BYTES + (self.bytes as usize).next_multiple_of(OP_BYTES)
    }

    /// Its header at `place` in the queue.
    pub(crate) fn words(&self, place: u64, checks: &Checks) -> [u64; 8] {
        let mut words = [
            OP_MAGIC,
            self.number,
            self.offset,
            u64::from(self.bytes) | u64::from(self.crc) << 32,
            self.pages_end,
            self.next,
            0,
            0,
        ];
        let [first @ .., _] = words;
        words[7] = checks.words(place, &first);
        words
    }

    /// The operation whose header is at `place` in the queue.
    pub(crate) fn from_words(words: &[u64; 8], place: u64, checks: &Checks) -> Option<Self> {
        let [_, number, offset, bytes, pages_end, next, ..] = *words;
        let op = Self {
            number,
            offset,
            bytes: bytes as u32,
            crc: (bytes >> 32) as u32,
            pages_end,
            next,
        };
        (op.words(place, checks) == *words).then_some(op)
    }
}

/// The first bytes of a ring's file.
pub(crate) fn preamble(
    path: &[u8],
    queue_bytes: u64,
    namespaces: Option<Namespaces>,
) -> [u8; HEADER_OFFSET] {
    let mut out = [0; HEADER_OFFSET];
    let path = path.get(..PATH_BYTES.min(path.len())).unwrap_or_default();
    let mut put = |at: usize, bytes: &[u8]| {
        if let Some(to) = out.get_mut(at..at + bytes.len()) {
            to.copy_from_slice(bytes);
        }
    };
    put(0, &MAGIC);
    put(8, &VERSION.to_le_bytes());
    put(12, &(path.len() as u32).to_le_bytes());
    put(16, &queue_bytes.to_le_bytes());
    put(PATH_OFFSET, path);
    if let Some(namespaces) = namespaces {
        let bytes = namespaces.encode();
        put(NAMESPACES_OFFSET, &bytes);
        put(
            NAMESPACES_CRC_OFFSET,
            &crc32fast::hash(&bytes).to_le_bytes(),
        );
    }
    let crc = preamble_crc(&out, path.len());
    if let Some(to) = out.get_mut(24..28) {
        to.copy_from_slice(&crc.to_le_bytes());
    }
    out
}

/// The namespaces of a ring's process. None if its recorder did not record them, or if they are damaged.
pub(crate) fn namespaces(preamble: &[u8; HEADER_OFFSET]) -> Option<Namespaces> {
    let crc = preamble.get(NAMESPACES_CRC_OFFSET..NAMESPACES_OFFSET)?;
    let bytes = preamble.get(NAMESPACES_OFFSET..PATH_OFFSET)?;
    (crc32fast::hash(bytes).to_le_bytes() == crc).then(|| Namespaces::decode(bytes))?
}

/// The checksum of a preamble with a path of that many bytes.
pub(crate) fn preamble_crc(bytes: &[u8; HEADER_OFFSET], path: usize) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&bytes[..24]);
    hasher.update(
        bytes
            .get(PATH_OFFSET..PATH_OFFSET + path)
            .unwrap_or_default(),
    );
    hasher.finalize()
}

//! A capture and the ring that its process left, and the rules of merging them.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use super::{Bytes, NONCE, SLOTS, fill_ring, head_of, judged, pages, static_header};
use crate::header::{RingAt, RingPath, StaticHeader};
use crate::ring_file::{HEADER_OFFSET, NAME_PREFIX, Op, preamble};
use crate::{Merged, checksum::Checks, index, layout, merge, procfs};

/// The files of one input.
struct Pair {
    header: StaticHeader,
    capture: Vec<u8>,
    ring: Vec<u8>,
    queue_bytes: u64,
}

/// A capture without pages, and a ring with a queue. The input: the ring as [`super::ring_file`] has it, then u16 the
/// bytes of pages that the capture has already, and these; then operations until the end. Of each: u8 how; u16 the
/// length of its input, and this. Bit 0 of how: u64 the offset, otherwise after the one before. Bit 1: u64 the end of
/// the pages, otherwise after it. Bit 2: the input is the content; otherwise pages are made from it.
fn pair(ring_path: &Path, capture_path: &Path, bytes: &[u8]) -> Option<Pair> {
    let header = StaticHeader {
        boot_id: procfs::boot_id(),
        ring_at: RingAt::File(RingPath::new(ring_path)?),
        ..static_header()
    };
    let start = header.pages_offset();
    let mut bytes = Bytes(bytes);
    let tail = bytes.number(2);
    let next = tail + bytes.number(1) % (u64::from(SLOTS) + 1);
    let mut slots = vec![0; layout::ring_end(SLOTS) as usize];
    fill_ring(&mut slots, tail, &mut bytes);
    let length = bytes.number(2) as usize;
    let (early, ..) = pages(&mut Bytes(bytes.take(length)), NONCE);
    let mut capture = head_of(&header, next, tail, early.len() as u64);
    capture.extend_from_slice(&early);
    let (mut end, mut pages_end) = (capture.len() as u64, capture.len() as u64);
    let (mut queue, mut number) = (Vec::new(), 0);
    while !bytes.is_empty() {
        let (how, length) = (bytes.number(1), bytes.number(2) as usize);
        let input = bytes.take(length);
        let content = match how & 4 {
            0 => pages(&mut Bytes(input), NONCE).0,
            _ => input.to_vec(),
        };
        let offset = if how & 1 == 0 { end } else { bytes.number(8) };
        end = offset.saturating_add(content.len() as u64);
        pages_end = if how & 2 == 0 { end } else { bytes.number(8) };
        let op = Op {
            number,
            offset,
            bytes: content.len() as u32,
            crc: crc32fast::hash(&content),
            pages_end,
            next: tail,
        };
        let words = op.words(queue.len() as u64, &Checks::new(NONCE));
        queue.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        queue.extend_from_slice(&content);
        queue.resize(queue.len().next_multiple_of(crate::ring_file::OP_BYTES), 0);
        number += 1;
    }
    let queue_bytes = queue.len() as u64;
    let mut ring = preamble(capture_path.as_os_str().as_bytes(), queue_bytes, None).to_vec();
    ring.extend_from_slice(&header.encode());
    ring.resize(layout::DYNAMIC_OFFSET as usize, 0);
    let head = head_of(&header, next, tail, pages_end.saturating_sub(start));
    ring.extend_from_slice(&head[layout::DYNAMIC_OFFSET as usize..layout::RING_OFFSET as usize]);
    let first = [0, 0, 0];
    let check = Checks::new(NONCE).words(layout::dynamic::QUEUE, &first);
    let words = [first[0], first[1], first[2], check];
    let words: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    ring[layout::dynamic::QUEUE as usize..][..words.len()].copy_from_slice(&words);
    let sealed = index::seal(pages_end, NONCE).to_le_bytes();
    ring[layout::dynamic::PAGES_END as usize..][..8].copy_from_slice(&sealed);
    ring.extend_from_slice(&slots[layout::RING_OFFSET as usize..]);
    ring.extend_from_slice(&queue);
    debug_assert_eq!(HEADER_OFFSET, 2048);
    Some(Pair {
        header,
        capture,
        ring,
        queue_bytes,
    })
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    options.open(path)?.write_all(bytes)
}

/// Writes a capture and the ring that its process left into the folder, and checks the rules of merging: the records
/// are the same before and after, whether or not the merge succeeds; the header stays, and the file has at most the
/// bytes that both had; a second merge has nothing to do. Returns the result of the first.
///
/// # Panics
/// If a rule is violated.
pub fn judge_left_ring(folder: &Path, bytes: &[u8]) -> Option<Merged> {
    let path = |name: &str| -> PathBuf { folder.join(name) };
    let (ring_path, capture_path) = (path(&format!("{NAME_PREFIX}1")), path("report.bin"));
    let pair = pair(&ring_path, &capture_path, bytes)?;
    write(&capture_path, &pair.capture).expect("room for a capture");
    write(&ring_path, &pair.ring).expect("room for a ring");
    let (before, given) = judged(&capture_path).expect("a capture");
    let merged = merge(&capture_path);
    let (after, given_after) = judged(&capture_path).expect("a capture");
    let counts = |of: &crate::Integrity| (of.events, of.definitions, of.pages);
    assert_eq!(counts(&after), counts(&before), "{merged:?}");
    assert_eq!(given_after, given, "other records after {merged:?}");
    let whole = fs::read(&capture_path).expect("a capture");
    let header = pair.header.encode();
    for copy in layout::STATIC_COPIES {
        assert_eq!(whole[copy as usize..][..header.len()], header, "the header");
    }
    let most = (pair.capture.len() + pair.ring.len()) as u64 + pair.queue_bytes;
    assert!(whole.len() as u64 <= most, "{} bytes", whole.len());
    if let Ok(Merged::Done) = merged {
        assert!(!ring_path.exists(), "the ring stays");
        let again = merge(&capture_path).ok();
        assert_eq!(again, Some(Merged::Nothing), "merged twice");
    }
    let _ = fs::remove_file(&ring_path);
    merged.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_does_not_cut_the_head_of_its_capture_off() {
        // No records, no pages, and an empty operation after which pages end before they begin.
        const EMPTY: u8 = 3;
        let slot = [&[EMPTY][..], &[0; 64]].concat();
        for end in [0_u64, 4096, layout::RING_OFFSET - 1] {
            let op = [&[2, 0, 0][..], &end.to_le_bytes()].concat();
            let input = [vec![0; 3], slot.repeat(SLOTS as usize), vec![0; 2], op].concat();
            let folder = tempfile::tempdir().unwrap();
            assert_eq!(judge_left_ring(folder.path(), &input), None, "{end}");
        }
    }
}

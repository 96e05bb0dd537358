//! The layout of a bounded capture, which has these areas instead of unlimited pages: two for a replay's state,
//! written alternately, and a circular log of the newest pages.
//!
//! | offset | size | what |
//! |---|---|---|
//! | P, where the pages of other captures start | S | state area 0 |
//! | … + S | S | state area 1 |
//! | … + 2 S | L | log: pages, circular |
//!
//! A state: a header of 128 bytes, followed by the replay's data.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 8 | magic: `GPUMSTAT` |
//! | 8 | 4 | bytes of this header: 128 |
//! | 12 | 4 | coding: 1 |
//! | 16 | 8 | the capture's nonce |
//! | 24 | 8 | seq: the state holds all records before it |
//! | 32 | 8 | events among those |
//! | 40 | 8 | definitions among those |
//! | 48 | 8 | bytes of the state, which follows |
//! | 56 | 4 | CRC32 of the state |
//! | 60 | 64 | zero |
//! | 124 | 4 | CRC32 of bytes 0–123 |

use crate::layout;

/// Bytes of a state's header.
pub(crate) const STATE_HEADER_BYTES: usize = 128;
const STATE_MAGIC: [u8; 8] = *b"GPUMSTAT";
const CODING: u32 = 1;

/// Minimum size of an area.
const LEAST: u64 = 2 << 20;
/// Minimum size of an area, in definitions of maximum size.
const DEFINITIONS: u64 = 4;
/// Areas are whole pages of memory.
const STEP: u64 = 4096;

/// The sizes of a bounded capture's areas, which determine their offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BoundedLayout {
    /// Bytes of each of the two areas for the state.
    pub(crate) state: u64,
    /// Bytes of the log.
    pub(crate) log: u64,
}

impl BoundedLayout {
    /// The areas of a file of `bytes` with that ring, whether or not the ring is in the file; `None` if it is too
    /// small.
    pub(crate) fn within(bytes: u64, ring_slots: u32) -> Option<Self> {
        let third = bytes.checked_sub(layout::ring_end(ring_slots))? / 3 / STEP * STEP;
        let bounded = Self {
            state: third,
            log: third,
        };
        (third >= Self::least(ring_slots)).then_some(bounded)
    }

    fn least(ring_slots: u32) -> u64 {
        LEAST.max(DEFINITIONS * layout::payload_limit(u64::from(ring_slots)))
    }

    /// The smallest file that has room for them.
    pub(crate) fn least_file(ring_slots: u32) -> u64 {
        layout::ring_end(ring_slots) + 3 * Self::least(ring_slots)
    }

    /// Whether a header's sizes can be those of a capture.
    pub(crate) fn is_possible(&self, ring_slots: u32) -> bool {
        let fits = |bytes: u64| bytes >= Self::least(ring_slots) && bytes < 1 << 40;
        fits(self.state) && fits(self.log)
    }

    /// Offset of a state area, 0 or 1. `start` is the offset of the areas, here and below.
    pub(crate) fn state_offset(&self, start: u64, which: usize) -> u64 {
        start + self.state * which as u64
    }

    /// Offset of the log.
    pub(crate) fn log_offset(&self, start: u64) -> u64 {
        self.state_offset(start, 2)
    }

    /// Offset of the end of the areas.
    pub(crate) fn end(&self, start: u64) -> u64 {
        self.log_offset(start) + self.log
    }

    /// Maximum number of bytes of a state.
    pub(crate) fn state_limit(&self) -> usize {
        self.state as usize - STATE_HEADER_BYTES
    }

    /// Maximum number of slots of a page of the log, unless one record alone has more. A record's columns take at
    /// most 128 bytes, so a page takes at most an eighth of the log.
    pub(crate) fn page_slots(&self) -> u64 {
        crate::page::SLOTS.min(self.log / 8 / 128)
    }
}

/// A state's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StateHeader {
    pub(crate) nonce: u64,
    pub(crate) seq: u64,
    pub(crate) events: u64,
    pub(crate) definitions: u64,
    pub(crate) bytes: u64,
    pub(crate) crc: u32,
}

impl StateHeader {
    pub(crate) fn encode(&self) -> [u8; STATE_HEADER_BYTES] {
        let mut out = [0; STATE_HEADER_BYTES];
        let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &STATE_MAGIC);
        put(8, &(STATE_HEADER_BYTES as u32).to_le_bytes());
        put(12, &CODING.to_le_bytes());
        let words = [
            self.nonce,
            self.seq,
            self.events,
            self.definitions,
            self.bytes,
        ];
        for (index, word) in words.iter().enumerate() {
            put(16 + 8 * index, &word.to_le_bytes());
        }
        put(56, &self.crc.to_le_bytes());
        let crc = crc32fast::hash(&out[..STATE_HEADER_BYTES - 4]);
        out[STATE_HEADER_BYTES - 4..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// Decodes a header, if it belongs to that capture and its state has at most `limit` bytes.
    pub(crate) fn decode(bytes: &[u8; STATE_HEADER_BYTES], nonce: u64, limit: u64) -> Option<Self> {
        let u64_at = |at: usize| {
            let mut le = [0; 8];
            le.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(le)
        };
        let header = Self {
            nonce: u64_at(16),
            seq: u64_at(24),
            events: u64_at(32),
            definitions: u64_at(40),
            bytes: u64_at(48),
            crc: u64_at(56) as u32,
        };
        let fits = header.nonce == nonce && header.bytes <= limit && header.encode() == *bytes;
        fits.then_some(header)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_fill_the_file_and_small_files_are_refused() {
        for slots in [64, 1024, 65_536, 1 << 24] {
            let least = BoundedLayout::least_file(slots);
            let bounded = BoundedLayout::within(least, slots).unwrap();
            assert!(bounded.end(layout::ring_end(slots)) <= least && bounded.is_possible(slots));
            assert_eq!(BoundedLayout::within(least - 1, slots), None);
            assert_eq!(BoundedLayout::within(0, slots), None);
        }
        let bounded = BoundedLayout::within(64 << 20, 65_536).unwrap();
        assert!((64 << 20) - bounded.end(layout::ring_end(65_536)) < 3 * STEP);
        assert_eq!(bounded.page_slots(), 20_472);
    }

    #[test]
    fn every_flipped_bit_of_a_states_header_is_noticed() {
        let header = StateHeader {
            nonce: 1,
            seq: 2,
            events: 3,
            definitions: 4,
            bytes: 5,
            crc: 6,
        };
        let good = header.encode();
        assert_eq!(StateHeader::decode(&good, 1, 5), Some(header));
        assert_eq!(StateHeader::decode(&good, 2, 5), None);
        assert_eq!(StateHeader::decode(&good, 1, 4), None);
        for bit in 0..8 * STATE_HEADER_BYTES {
            let mut bad = good;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(StateHeader::decode(&bad, 1, 5), None, "bit {bit}");
        }
    }
}

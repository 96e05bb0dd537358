//! The position of an embedded part, and the marks at its ends.

/// Bytes of a mark.
pub(crate) const MARK_BYTES: usize = 64;
const OPENING: [u8; 8] = *b"GPUMBAKE";
const CLOSING: [u8; 8] = *b"GPUMBEND";
const CODING: u32 = 1;

/// The position of the embedded part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// Offset of the opening mark: the capture's own length.
    pub(crate) start: u64,
    /// Offset of the closing mark.
    pub(crate) end: u64,
    /// SYMBOL definitions in it.
    pub(crate) symbols: u64,
}

impl Part {
    fn mark(magic: [u8; 8], nonce: u64, words: [u64; 3]) -> [u8; MARK_BYTES] {
        let mut mark = [0; MARK_BYTES];
        mark[..8].copy_from_slice(&magic);
        mark[8..12].copy_from_slice(&(MARK_BYTES as u32).to_le_bytes());
        mark[12..16].copy_from_slice(&CODING.to_le_bytes());
        mark[16..24].copy_from_slice(&nonce.to_le_bytes());
        for (to, word) in mark[24..48].chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        let crc = crc32fast::hash(&mark[..60]);
        mark[60..].copy_from_slice(&crc.to_le_bytes());
        mark
    }

    pub(crate) fn opening(nonce: u64, start: u64) -> [u8; MARK_BYTES] {
        Self::mark(OPENING, nonce, [start, 0, 0])
    }

    pub(crate) fn closing(self, nonce: u64) -> [u8; MARK_BYTES] {
        Self::mark(CLOSING, nonce, [self.start, self.end, self.symbols])
    }

    /// Whether there is an opening mark of that capture at that offset.
    pub(crate) fn opens(mark: &[u8; MARK_BYTES], nonce: u64, offset: u64) -> bool {
        *mark == Self::opening(nonce, offset)
    }

    /// Whether a truncated opening mark is at that offset.
    pub(crate) fn may_open(mark: &[u8], nonce: u64, offset: u64) -> bool {
        Self::opening(nonce, offset).starts_with(mark)
    }

    /// The part that a closing mark at `offset` ends, if it belongs to that capture.
    pub(crate) fn closed_by(mark: &[u8; MARK_BYTES], nonce: u64, offset: u64) -> Option<Self> {
        let word = |at: usize| {
            let mut le = [0; 8];
            le.copy_from_slice(&mark[at..at + 8]);
            u64::from_le_bytes(le)
        };
        let part = Self {
            start: word(24),
            end: word(32),
            symbols: word(40),
        };
        let is_whole = *mark == part.closing(nonce)
            && part.end == offset
            && part
                .start
                .checked_add(MARK_BYTES as u64)
                .is_some_and(|first| first <= offset);
        is_whole.then_some(part)
    }

    /// The first bytes of an opening mark.
    pub(crate) fn magic() -> [u8; 8] {
        OPENING
    }
}

/// The nonce of the part's pages.
pub(crate) fn page_nonce(nonce: u64) -> u64 {
    !nonce
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONCE: u64 = 0xd02c_af74_55cb_b1a0;
    const PART: Part = Part {
        start: 30_000,
        end: 31_000,
        symbols: 7,
    };

    #[test]
    fn a_mark_is_known_at_its_own_place_only() {
        let closing = PART.closing(NONCE);
        assert_eq!(Part::closed_by(&closing, NONCE, 31_000), Some(PART));
        assert_eq!(Part::closed_by(&closing, NONCE, 31_064), None);
        assert_eq!(Part::closed_by(&closing, NONCE ^ 1, 31_000), None);
        let opening = Part::opening(NONCE, 30_000);
        assert!(Part::opens(&opening, NONCE, 30_000));
        assert!(!Part::opens(&opening, NONCE, 30_064));
        assert_eq!(Part::closed_by(&opening, NONCE, 0), None);
        let backwards = Part {
            start: 30_999,
            ..PART
        };
        assert_eq!(
            Part::closed_by(&backwards.closing(NONCE), NONCE, 31_000),
            None,
            "the marks would overlap"
        );
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let closing = PART.closing(NONCE);
        let opening = Part::opening(NONCE, 30_000);
        for bit in 0..8 * MARK_BYTES {
            let (mut bad_closing, mut bad_opening) = (closing, opening);
            bad_closing[bit / 8] ^= 1 << (bit % 8);
            bad_opening[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Part::closed_by(&bad_closing, NONCE, 31_000), None, "{bit}");
            assert!(!Part::opens(&bad_opening, NONCE, 30_000), "{bit}");
        }
    }
}

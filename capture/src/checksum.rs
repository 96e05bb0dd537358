//! The checksums of records, counter rows and the fields of the mutable header: CRC32C, because processors have
//! an instruction for it. A record costs a hook nine of these instructions. SPEC.md has them in a few lines of
//! Python.

use crate::sync::{AtomicU64, Ordering};

/// Digits of π. Odd, so that multiplication by it is reversible.
const LAST: u64 = 0x9216_d5d9_8979_fb1b;

/// The two halves of the 128-bit product, folded together.
#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ ((product >> 64) as u64)
}

/// The half of the commit word that identifies the slot. Never 0.
#[inline]
pub(crate) fn tag(seq: u64, nonce: u64) -> u32 {
    (fold(seq ^ nonce, LAST) as u32) | 1
}

/// The implementation of a capture's checksums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Crc,
    /// The same, on a processor that has the instruction.
    #[cfg(all(target_arch = "x86_64", not(loom)))]
    CrcInstruction,
}

/// The checks of one capture.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Checks {
    pub(crate) nonce: u64,
    /// CRC32C of the nonce, the initial value of every checksum.
    seed: u32,
    kind: Kind,
}

impl Checks {
    /// The checksums of the capture with this nonce.
    pub(crate) fn new(nonce: u64) -> Self {
        let seed = crc32c::crc32c(&nonce.to_le_bytes());
        #[cfg(all(target_arch = "x86_64", not(loom)))]
        if std::arch::is_x86_feature_detected!("sse4.2") {
            let kind = Kind::CrcInstruction;
            return Self { nonce, seed, kind };
        }
        let kind = Kind::Crc;
        Self { nonce, seed, kind }
    }

    /// The commit word of the record at `seq` in these slots; the first word, where it will be stored, is not
    /// included.
    pub(crate) fn record(
        &self,
        seq: u64,
        first: &[u64; 8],
        others: impl Iterator<Item = [u64; 8]>,
    ) -> u64 {
        let [_, rest @ ..] = first;
        let crc = self.append(self.append(self.seed, &[seq]), rest);
        let check = others.fold(crc, |crc, slot| self.append(crc, &slot));
        self.commit_word(seq, check)
    }

    /// The commit word of the record of one slot at `seq` whose words lie in `slot`.
    #[inline(always)]
    pub(crate) fn slot(&self, seq: u64, slot: &[AtomicU64; 8]) -> u64 {
        #[cfg(all(target_arch = "x86_64", not(loom)))]
        if self.kind == Kind::CrcInstruction {
            let mut crc = u64::from(!self.seed);
            // SAFETY: the processor has the instruction; the words are the slot's.
            unsafe {
                core::arch::asm!(
                    "crc32 {crc}, {seq}",
                    "crc32 {crc}, qword ptr [{slot} + 8]",
                    "crc32 {crc}, qword ptr [{slot} + 16]",
                    "crc32 {crc}, qword ptr [{slot} + 24]",
                    "crc32 {crc}, qword ptr [{slot} + 32]",
                    "crc32 {crc}, qword ptr [{slot} + 40]",
                    "crc32 {crc}, qword ptr [{slot} + 48]",
                    "crc32 {crc}, qword ptr [{slot} + 56]",
                    crc = inout(reg) crc,
                    seq = in(reg) seq,
                    slot = in(reg) core::ptr::from_ref(slot),
                    options(nostack, readonly, preserves_flags),
                );
            }
            return self.commit_word(seq, !(crc as u32));
        }
        self.slot_without_instruction(seq, slot)
    }

    #[cold]
    fn slot_without_instruction(&self, seq: u64, slot: &[AtomicU64; 8]) -> u64 {
        let words = slot.each_ref().map(|word| word.load(Ordering::Relaxed));
        self.record(seq, &words, core::iter::empty())
    }

    /// Continues the CRC32C `crc` over these words, little-endian.
    fn append(&self, crc: u32, words: &[u64]) -> u32 {
        #[cfg(all(target_arch = "x86_64", not(loom)))]
        if self.kind == Kind::CrcInstruction {
            // SAFETY: the processor has the instruction.
            return unsafe { append_by_instruction(crc, words) };
        }
        words.iter().fold(crc, |crc, word| {
            crc32c::crc32c_append(crc, &word.to_le_bytes())
        })
    }

    #[inline(always)]
    fn commit_word(&self, seq: u64, check: u32) -> u64 {
        u64::from(check) << 32 | u64::from(tag(seq, self.nonce))
    }

    /// The check word of a few words in the header that are not a record. `place` is their offset in the file,
    /// so that no two places share a checksum. Never 0.
    pub(crate) fn words(&self, place: u64, words: &[u64]) -> u64 {
        marked(self.append(self.append(self.seed, &[place]), words))
    }
}

/// A check word: never 0, which means that nothing was written.
#[inline(always)]
fn marked(crc: u32) -> u64 {
    1 << 32 | u64::from(crc)
}

/// Continues the CRC32C `crc` over these words.
#[cfg(all(target_arch = "x86_64", not(loom)))]
#[target_feature(enable = "sse4.2")]
fn append_by_instruction(crc: u32, words: &[u64]) -> u32 {
    let crc = words.iter().fold(u64::from(!crc), |crc, word| {
        core::arch::x86_64::_mm_crc32_u64(crc, *word)
    });
    !(crc as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    // SPEC.md, "Worked example".
    const NONCE: u64 = 0xd02c_af74_55cb_b1a0;
    const WORDS: [u64; 8] = [
        0,
        6400,
        0x7f00_0000_0000,
        512,
        0,
        1 | 2 << 32,
        4242 | 0x0101 << 32,
        1 | 1 << 32,
    ];

    #[test]
    fn every_single_bit_flip_changes_the_check() {
        let checks = Checks::new(NONCE);
        let good = checks.record(5, &WORDS, core::iter::empty());
        let facts = checks.words(64, &WORDS[1..]);
        for (word, bit) in (1..8).flat_map(|word| (0..64).map(move |bit| (word, bit))) {
            let mut flipped = WORDS;
            flipped[word] ^= 1 << bit;
            let bad = checks.record(5, &flipped, core::iter::empty());
            assert_ne!(good, bad, "word {word} bit {bit}");
            assert_ne!(facts, checks.words(64, &flipped[1..]), "{word} bit {bit}");
        }
    }

    #[test]
    fn the_figures_of_the_spec() {
        let checks = Checks::new(NONCE);
        let commit = checks.record(4, &WORDS, core::iter::empty());
        assert_eq!(commit, 0x2129_c7ae_febe_a349, "{commit:#018x}");
        let row = checks.words(0x2040, &[512, 512, 2, 1, 1024, 6]);
        assert_eq!(row, 0x0000_0001_4f2a_4ce9, "{row:#018x}");
        let counted = checks.words(0x1140, &[5, 6656, 0]);
        assert_eq!(counted, 0x0000_0001_06e4_92e7, "{counted:#018x}");
    }

    #[test]
    #[cfg(not(loom))]
    fn the_instruction_finds_the_same() {
        let by_instruction = Checks::new(NONCE);
        let without = Checks {
            kind: Kind::Crc,
            ..by_instruction
        };
        let slot = WORDS.map(AtomicU64::new);
        for checks in [by_instruction, without] {
            let record = checks.record(9, &WORDS, core::iter::empty());
            assert_eq!(checks.slot(9, &slot), record);
            assert_eq!(checks.words(8192, &[7, 12]), without.words(8192, &[7, 12]));
        }
    }

    #[test]
    fn tags_differ_between_neighbours_and_laps() {
        let nonce = 77;
        let mut tags: Vec<u32> = (0..10_000).map(|i| tag(i, nonce)).collect();
        tags.extend((0..10_000).map(|i| tag(3 + i * 65_536, nonce)));
        tags.sort_unstable();
        tags.dedup();
        // 20,000 draws out of 2^31 collide about 0.1 times; index 3 occurs twice.
        assert!(tags.len() >= 19_995, "{}", tags.len());
    }
}

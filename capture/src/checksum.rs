//! The check that records, counter rows and the mutable header's facts carry: a multiply-and-fold hash.
//!
//! It must cost a few nanoseconds in a hook, which rules out CRC32 over 64 bytes without hardware
//! support; pages, which the drain writes, carry CRC32. SPEC.md gives it in eight lines of Python.

/// Fractional digits of π: nothing up our sleeve.
const KEYS: [u64; 8] = [
    0x243f_6a88_85a3_08d3,
    0x1319_8a2e_0370_7344,
    0xa409_3822_299f_31d0,
    0x082e_fa98_ec4e_6c89,
    0x4528_21e6_38d0_1377,
    0xbe54_66cf_34e9_0c6c,
    0xc0ac_29b7_c97c_50dd,
    0x3f84_d5b5_b547_0917,
];

/// The next digits of π; odd, so that multiplying by it loses nothing.
const LAST: u64 = 0x9216_d5d9_8979_fb1b;

/// The two halves of the 128-bit product, folded together.
#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ ((product >> 64) as u64)
}

/// Takes one slot (eight words) into the running hash.
#[inline]
pub(crate) fn block(hash: u64, words: &[u64; 8]) -> u64 {
    let [first, ..] = *words;
    block_from(hash, first, words)
}

/// The same with `w0` in the place of the first word. One copy for all: an event checks two things, and what it
/// costs is more the code to be fetched than the call.
#[inline(never)]
fn block_from(hash: u64, w0: u64, words: &[u64; 8]) -> u64 {
    let [_, w1, w2, w3, w4, w5, w6, w7] = *words;
    let [k0, k1, k2, k3, k4, k5, k6, k7] = KEYS;
    // The four products do not depend on one another: they overlap in the processor.
    let sum = fold(w0 ^ k0 ^ hash, w1 ^ k1)
        .wrapping_add(fold(w2 ^ k2 ^ hash, w3 ^ k3))
        .wrapping_add(fold(w4 ^ k4 ^ hash, w5 ^ k5))
        .wrapping_add(fold(w6 ^ k6 ^ hash, w7 ^ k7));
    fold(sum.wrapping_add(hash), LAST)
}

/// The half of the commit word that says whose slot it is. Never 0.
#[inline]
pub(crate) fn tag(seq: u64, nonce: u64) -> u32 {
    (fold(seq ^ nonce, LAST) as u32) | 1
}

/// The commit word of the record at `seq` whose slots hash to `hash`.
#[inline]
pub(crate) fn commit_word(seq: u64, nonce: u64, hash: u64) -> u64 {
    (hash & 0xffff_ffff_0000_0000) | u64::from(tag(seq, nonce))
}

/// The hash of a one-slot record; `words[0]`, where the commit word goes, is not looked at.
#[inline]
pub(crate) fn first_slot(seq: u64, nonce: u64, words: &[u64; 8]) -> u64 {
    block_from(nonce, seq, words)
}

/// The check word of seven words somewhere in the head that are not a record; `place` is their
/// offset in the file, so that no two places share a check.
#[inline]
pub(crate) fn words_check(nonce: u64, place: u64, words: [u64; 7]) -> u64 {
    let [a, b, c, d, e, f, g] = words;
    block(nonce, &[place, a, b, c, d, e, f, g])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_single_bit_flip_changes_the_check() {
        let nonce = 0x0123_4567_89ab_cdef;
        let words = [
            0,
            1_000_000,
            0x7f00_0000_0000,
            512,
            2 << 20,
            7 | 9 << 32,
            4242 | 1 << 32,
            3,
        ];
        let good = commit_word(5, nonce, first_slot(5, nonce, &words));
        for word in 1..8 {
            for bit in 0..64 {
                let mut flipped = words;
                flipped[word] ^= 1 << bit;
                let bad = commit_word(5, nonce, first_slot(5, nonce, &flipped));
                assert_ne!(good, bad, "word {word} bit {bit}");
            }
        }
    }

    #[test]
    fn the_figures_of_the_spec() {
        // SPEC.md, "Worked example": an independent reader must get the same.
        let words = [
            0,
            1000,
            0x7f00_0000_0000,
            512,
            0,
            1 | 2 << 32,
            4242 | 1 << 32,
            3 | 1 << 32,
        ];
        let commit = commit_word(7, 0x1122_3344_5566_7788, {
            first_slot(7, 0x1122_3344_5566_7788, &words)
        });
        assert_eq!(commit, SPEC_COMMIT, "{commit:#018x}");
    }

    const SPEC_COMMIT: u64 = 0xe457_fae0_e6f2_5f75;

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

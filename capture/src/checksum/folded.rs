//! The multiply-and-fold hash of versions 1 and 2, which nobody writes any more.

use super::{LAST, fold};

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

/// Takes one slot (eight words) into the running hash.
fn block(hash: u64, words: &[u64; 8]) -> u64 {
    let [w0, w1, w2, w3, w4, w5, w6, w7] = *words;
    let [k0, k1, k2, k3, k4, k5, k6, k7] = KEYS;
    let sum = fold(w0 ^ k0 ^ hash, w1 ^ k1)
        .wrapping_add(fold(w2 ^ k2 ^ hash, w3 ^ k3))
        .wrapping_add(fold(w4 ^ k4 ^ hash, w5 ^ k5))
        .wrapping_add(fold(w6 ^ k6 ^ hash, w7 ^ k7));
    fold(sum.wrapping_add(hash), LAST)
}

/// The half of a commit word that checks the record at `seq` in these slots.
pub(super) fn record(
    nonce: u64,
    seq: u64,
    first: &[u64; 8],
    others: impl Iterator<Item = [u64; 8]>,
) -> u32 {
    let [_, w1, w2, w3, w4, w5, w6, w7] = *first;
    let hash = block(nonce, &[seq, w1, w2, w3, w4, w5, w6, w7]);
    let hash = others.fold(hash, |hash, slot| block(hash, &slot));
    (hash >> 32) as u32
}

/// The check word of at most seven words at `place`.
pub(super) fn words(nonce: u64, place: u64, words: &[u64]) -> u64 {
    let mut all = [0; 8];
    let [first, rest @ ..] = &mut all;
    *first = place;
    for (to, from) in rest.iter_mut().zip(words) {
        *to = *from;
    }
    block(nonce, &all)
}

//! Numbers that producers change at every record, too often for a separate check word: 48 bits of
//! value, and a checksum of it in the upper 16. 2^48 slots are 89 years at 100,000 events a second.

const VALUE: u64 = (1 << 48) - 1;

/// The next digits of π after [`crate::checksum`]'s; odd.
const FACTOR: u64 = 0xd131_0ba6_98df_b5ad;

/// The word that encodes `value`.
#[inline]
pub(crate) fn seal(value: u64, nonce: u64) -> u64 {
    let value = value & VALUE;
    let check = (value ^ nonce).wrapping_mul(FACTOR) & !VALUE;
    value | check
}

/// The value of a word, without checking it.
#[inline]
pub(crate) fn value(word: u64) -> u64 {
    word & VALUE
}

/// The value of a word whose checksum matches.
pub(crate) fn open(word: u64, nonce: u64) -> Option<u64> {
    (seal(word, nonce) == word).then_some(value(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_bit_is_noticed() {
        for n in 0..200_u64 {
            let nonce = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            for number in [n, n << 16, n << 40, n * 0x12_3456_789a] {
                let word = seal(number, nonce);
                assert_eq!(open(word, nonce), Some(number));
                for bit in 0..64 {
                    assert_eq!(open(word ^ 1 << bit, nonce), None, "{number} bit {bit}");
                }
            }
        }
    }
}

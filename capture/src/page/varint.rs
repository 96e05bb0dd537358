//! LEB128 and zigzag.

/// Appends a number in 7-bit groups, the lowest first.
#[inline]
pub(super) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends the wrapped difference `value − from` as a signed number.
#[inline]
pub(super) fn put_difference(out: &mut Vec<u8>, value: u64, from: u64) {
    let difference = value.wrapping_sub(from) as i64;
    put(out, ((difference << 1) ^ (difference >> 63)) as u64);
}

/// Takes one byte.
#[inline]
pub(super) fn take_byte(from: &mut &[u8]) -> Option<u8> {
    let (first, rest) = from.split_first()?;
    *from = rest;
    Some(*first)
}

/// Takes a number; None at the end of the bytes or if it does not fit 64 bits.
#[inline]
pub(super) fn take(from: &mut &[u8]) -> Option<u64> {
    let first = take_byte(from)?;
    if first < 0x80 {
        return Some(u64::from(first));
    }
    let mut value = u64::from(first & 0x7f);
    let mut shift = 7;
    loop {
        let byte = take_byte(from)?;
        let group = u64::from(byte & 0x7f);
        if shift > 63 || (shift == 63 && group > 1) {
            return None;
        }
        value |= group << shift;
        if byte < 0x80 {
            return Some(value);
        }
        shift += 7;
    }
}

/// Takes a signed difference: its two's complement bits.
#[inline]
pub(super) fn take_difference(from: &mut &[u8]) -> Option<u64> {
    let coded = take(from)?;
    Some((coded >> 1) ^ (coded & 1).wrapping_neg())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLES: [u64; 9] = [
        0,
        1,
        127,
        128,
        16_383,
        16_384,
        1 << 63,
        u64::MAX - 1,
        u64::MAX,
    ];

    #[test]
    fn numbers_survive() {
        for value in SAMPLES {
            let mut out = Vec::new();
            put(&mut out, value);
            for length in 0..out.len() {
                assert_eq!(take(&mut &out[..length]), None, "{value} cut to {length}");
            }
            assert_eq!(take(&mut &out[..]), Some(value));
            for from in SAMPLES {
                let mut out = Vec::new();
                put_difference(&mut out, value, from);
                let difference = take_difference(&mut &out[..]).unwrap();
                assert_eq!(from.wrapping_add(difference), value);
            }
        }
    }

    #[test]
    fn more_than_64_bits_are_refused() {
        assert_eq!(
            take(&mut &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2][..]),
            None
        );
        assert_eq!(take(&mut &[0x80; 20][..]), None);
    }
}

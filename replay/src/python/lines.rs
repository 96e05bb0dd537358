//! Line tables of CPython's code objects, in the three forms of CPython's versions.
//!
//! | versions | attribute | form |
//! |---|---|---|
//! | to 3.9 | `co_lnotab` | pairs of u8 bytes of code and i8 lines, added up |
//! | 3.10 | `co_linetable` | pairs of u8 length and i8 lines for each range of code; −128: no line |
//! | from 3.11 | `co_linetable` | entries whose first byte is `0x80 \| code << 3 \| units − 1`, a unit being 2 bytes of code; what follows depends on `code` (Objects/locations.md in CPython) |
//!
//! Tables come from captures, which may be damaged: any bytes give a line or `None`, without a panic.

/// The line of the instruction at `offset` bytes from the start of a code object. `None` for code that has no line, and
/// beyond the table. `version` is CPython's hex version.
///
/// A negative offset means that the frame was only just entered; its line is the first line.
pub fn line(version: u32, first_line: u32, table: &[u8], offset: i32) -> Option<u32> {
    let Ok(offset) = u64::try_from(offset) else {
        return Some(first_line);
    };
    let found = match (version >> 24, version >> 16 & 0xff) {
        (3, ..=9) => in_lnotab(first_line, table, offset),
        (3, 10) => in_ranges(first_line, table, offset),
        _ => in_locations(first_line, table, offset),
    };
    u32::try_from(found?).ok()
}

/// To 3.9.
fn in_lnotab(first_line: u32, table: &[u8], offset: u64) -> Option<i64> {
    let mut line = i64::from(first_line);
    let mut start = 0;
    for &[bytes, lines] in table.as_chunks().0 {
        start += u64::from(bytes);
        if start > offset {
            break;
        }
        line += i64::from(lines as i8);
    }
    Some(line)
}

/// 3.10.
fn in_ranges(first_line: u32, table: &[u8], offset: u64) -> Option<i64> {
    const NO_LINE: i8 = -128;
    let mut line = i64::from(first_line);
    let mut end = 0;
    for &[bytes, lines] in table.as_chunks().0 {
        end += u64::from(bytes);
        let lines = lines as i8;
        if lines != NO_LINE {
            line += i64::from(lines);
        }
        if offset < end {
            return (lines != NO_LINE).then_some(line);
        }
    }
    None
}

/// From 3.11.
fn in_locations(first_line: u32, table: &[u8], offset: u64) -> Option<i64> {
    let mut line = i64::from(first_line);
    let mut end = 0;
    let mut bytes = table.iter().copied();
    while let Some(head) = bytes.next() {
        end += (u64::from(head & 7) + 1) * 2;
        let mut has_line = true;
        match head >> 3 & 15 {
            15 => has_line = false,
            // With end line, column and end column.
            14 => {
                line = line.checked_add(signed(&mut bytes)?)?;
                for _ in 0..3 {
                    unsigned(&mut bytes)?;
                }
            }
            13 => line = line.checked_add(signed(&mut bytes)?)?,
            // With column and end column, a byte each.
            code @ 10..=12 => {
                line = line.checked_add(i64::from(code - 10))?;
                bytes.nth(1)?;
            }
            // The same line; columns in one byte.
            _ => {
                bytes.next()?;
            }
        }
        if offset < end {
            return has_line.then_some(line);
        }
    }
    None
}

/// Six bits per byte, the lowest first; bit 6 is set if more bytes follow.
fn unsigned(bytes: &mut impl Iterator<Item = u8>) -> Option<u64> {
    let (mut value, mut shift) = (0u64, 0);
    loop {
        let byte = bytes.next()?;
        value |= u64::from(byte & 63).checked_shl(shift)?;
        if byte & 64 == 0 {
            return Some(value);
        }
        shift += 6;
    }
}

/// The sign is bit 0.
fn signed(bytes: &mut impl Iterator<Item = u8>) -> Option<i64> {
    let value = unsigned(bytes)?;
    let magnitude = i64::try_from(value >> 1).ok()?;
    Some(if value & 1 == 0 {
        magnitude
    } else {
        -magnitude
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PY39: u32 = 0x0309_12f0;
    const PY310: u32 = 0x030a_0df0;
    const PY312: u32 = 0x030c_01f0;

    #[test]
    fn lnotab() {
        // def f(): (line 5)  x = 1 (6, at 0)  y = (2 + (8, at 4) …)  z back at 7 (at 300)
        let table = [0, 1, 4, 2, 255, 0, 41, 0xff];
        for (offset, expected) in [
            (-1, 5),
            (0, 6),
            (2, 6),
            (4, 8),
            (258, 8),
            (299, 8),
            (300, 7),
        ] {
            assert_eq!(line(PY39, 5, &table, offset), Some(expected), "{offset}");
        }
        assert_eq!(line(PY39, 5, &[], 10), Some(5));
    }

    #[test]
    fn ranges_of_3_10() {
        let table = [2, 1, 4, 0x80, 0, 3, 6, 0xff];
        let at = |offset| line(PY310, 10, &table, offset);
        assert_eq!((at(-2), at(0), at(1)), (Some(10), Some(11), Some(11)));
        assert_eq!((at(2), at(5)), (None, None));
        assert_eq!((at(6), at(10), at(12)), (Some(13), Some(13), None));
    }

    #[test]
    fn locations_of_3_11() {
        let table = [
            0x80 | 15 << 3, // no line, 1 unit
            0x80 | 11 << 3 | 1,
            0,
            9, // next line, 2 units
            0x80 | 14 << 3,
            0x40 | 2,
            1,
            0,
            1,
            1, // +33 lines, 1 unit
            0x80 | 13 << 3,
            3, // −1 line
            0x80 | 2 << 3 | 7,
            0x12, // the same line, 8 units
        ];
        let at = |offset| line(PY312, 100, &table, offset);
        assert_eq!((at(-2), at(0), at(1)), (Some(100), None, None));
        assert_eq!(
            (at(2), at(5), at(6), at(8)),
            (Some(101), Some(101), Some(134), Some(133))
        );
        assert_eq!((at(10), at(25), at(26)), (Some(133), Some(133), None));
    }

    #[test]
    fn any_bytes_have_an_answer_or_none() {
        let mut state = 1u64;
        let mut random = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 56) as u8
        };
        for length in 0..2000 {
            let table: Vec<u8> = (0..length % 40).map(|_| random()).collect();
            for version in [PY39, PY310, PY312] {
                for offset in [i32::MIN, -1, 0, 1, 7, 100, i32::MAX] {
                    line(version, u32::MAX, &table, offset);
                }
            }
        }
        // Endless shifts and sums that overflow.
        assert_eq!(line(PY312, 1, &[0xf0; 300], 0), None);
        let huge = [&[0x80 | 13 << 3][..], &[0x7f; 10], &[0x0e]]
            .concat()
            .repeat(20);
        assert_eq!(line(PY312, 1, &huge, 1000), None);
        // The largest line, and two lines more.
        let largest = [
            &[0x80 | 13 << 3, 0x7c][..],
            &[0x7f; 9],
            &[0x0f, 0x80 | 12 << 3, 0, 0],
        ];
        assert_eq!(line(PY312, 1, &largest.concat(), 3), None);
    }
}

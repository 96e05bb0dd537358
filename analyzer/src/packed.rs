//! Numbers in the data of a page: in groups of seven bits, compressed by zlib, as base64. `unpack` in the pages'
//! programs decodes them.

use std::io::Write;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::ZlibEncoder;

/// A number in groups of seven bits, the lowest first.
pub(crate) fn number(value: u64, out: &mut Vec<u8>) {
    let mut left = value;
    while left >= 0x80 {
        out.push(left as u8 | 0x80);
        left >>= 7;
    }
    out.push(left as u8);
}

/// A signed number, as zigzag.
pub(crate) fn signed(value: i64, out: &mut Vec<u8>) {
    number(((value << 1) ^ (value >> 63)) as u64, out);
}

/// Bytes compressed by zlib, as base64.
pub(crate) fn text(bytes: &[u8]) -> std::io::Result<String> {
    let mut out = ZlibEncoder::new(Vec::new(), Compression::default());
    out.write_all(bytes)?;
    Ok(STANDARD.encode(out.finish()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_take_as_many_bytes_as_they_need() {
        let mut out = Vec::new();
        for value in [0, 127, 128, 1 << 35] {
            number(value, &mut out);
        }
        signed(-1, &mut out);
        signed(64, &mut out);
        assert_eq!(
            out,
            [
                0, 0x7f, 0x80, 1, 0x80, 0x80, 0x80, 0x80, 0x80, 1, 1, 0x80, 1
            ]
        );
    }
}

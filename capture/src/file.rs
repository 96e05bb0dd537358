//! Reading from a file at an offset.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

/// Fills `bytes` from an offset on; returns how many the file had, the rest is zeroed.
pub(crate) fn fill(file: &File, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
    let mut have = 0;
    while have < bytes.len() {
        match file.read_at(&mut bytes[have..], offset + have as u64) {
            Ok(0) => break,
            Ok(count) => have += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes[have..].fill(0);
    Ok(have)
}

use std::io::Write as _;

use super::*;

/// The header of a page with a definition of `bytes` bytes, by the table in `page/mod.rs`.
fn header(bytes: u32) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    let mut put = |at: usize, of: &[u8]| header[at..at + of.len()].copy_from_slice(of);
    put(0, &MAGIC);
    put(8, &(HEADER_BYTES as u32).to_le_bytes());
    put(12, &1_u32.to_le_bytes());
    put(32, &1_u64.to_le_bytes());
    put(44, &1_u32.to_le_bytes());
    put(64, &bytes.to_le_bytes());
    put(72, &bytes.to_le_bytes());
    put(76, &bytes.to_le_bytes());
    let crc = crc32fast::hash(&header[..HEADER_BYTES - 4]);
    header[HEADER_BYTES - 4..].copy_from_slice(&crc.to_le_bytes());
    header
}

/// The time to read a file is bounded, also if a long page begins at each header of it.
#[test]
fn pages_that_overlap_take_no_time() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let length = 40_000 * HEADER_BYTES as u64;
    for _ in 0..40_000 {
        file.write_all(&header(4 << 20)).unwrap();
    }
    let input = Input::of(file.path(), file.reopen().unwrap());
    let how = How {
        threads: Some(0),
        part: Part::Records,
    };
    let mut pages = Pages::new(&input, 0, 0, how).unwrap();
    let mut nothing = |_: crate::Record<'_>| panic!("a record");
    let mut cursor = Cursor::new(&mut nothing);
    pages
        .read(&mut cursor, &Progress::new(length), 0, true)
        .unwrap();
    let most = IN_VAIN.0 + IN_VAIN.1 * length;
    assert!(
        (most..most + (8 << 20)).contains(&pages.in_vain),
        "{}",
        pages.in_vain
    );
    pages
        .read(&mut cursor, &Progress::new(length), 0, true)
        .unwrap();
    let damage = cursor.finish().damage;
    let [first, rest] = &damage[..] else {
        panic!("{damage:?}");
    };
    assert_eq!(first.offset, 0);
    assert_eq!(
        rest.what,
        "too many pages are damaged: the rest was not read"
    );
}

//! The ring's memory, taken step by step in its first lap.

use gpumem_capture::*;
use gpumem_sys::wait::waits;

use crate::elsewhere::event;
use crate::support::*;

/// The default: more than has memory from the start.
const SLOTS: u64 = 65_536;
/// Bytes before the slots.
const HEAD: usize = 24 * 1024;

/// A capture with a ring in `rings`.
fn begin(
    folder: &std::path::Path,
    rings: &std::path::Path,
) -> (std::path::PathBuf, &'static Writer) {
    let path = folder.join("report.bin");
    let place = RingPlace::Folders(vec![rings.to_owned()]);
    let writer = Writer::create(&path, &Options::default().ring(place)).unwrap();
    (path, writer)
}

/// Records events without a drain, and then reads them with one.
fn record_and_read(path: &std::path::Path, writer: &'static Writer, count: u64) {
    for n in 0..count {
        writer.event(&event(writer, n)).unwrap();
    }
    with_drain(writer, || {});
    let (records, integrity) = read(path);
    assert_eq!((integrity.events, integrity.events_lost), (count, 0));
    assert!(events(&records).zip(0..).all(|(event, n)| event.ptr == n));
}

/// Blocks of a file, in bytes.
fn memory_of(path: &std::path::Path) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata(path).unwrap().blocks() * 512
}

#[test]
fn a_ring_takes_memory_as_it_is_used_and_nobody_waits_for_it() {
    let (folder, rings) = (tempfile::tempdir().unwrap(), in_memory());
    let (path, writer) = begin(folder.path(), rings.path());
    let ring = writer.ring_path().unwrap();
    assert!(memory_of(ring) < 600 << 10, "{}", memory_of(ring));
    let waited = waits();
    for n in 0..SLOTS {
        writer.event(&event(writer, n)).unwrap();
    }
    assert_eq!(waits() - waited, 0);
    assert!(memory_of(ring) >= 4 << 20, "{}", memory_of(ring));
    assert!(!writer.is_partly_private());
    with_drain(writer, || {});
    assert_eq!(read(&path).1.events, SLOTS);
}

#[test]
fn without_more_memory_the_rest_of_the_ring_is_the_process_s_own() {
    let (folder, rings) = (tempfile::tempdir().unwrap(), in_memory());
    let (path, writer) = begin(folder.path(), rings.path());
    // The kernel cannot store there, as in a page of a file system that is full.
    let (base, _) = writer.shared_memory().unwrap();
    let second_half = HEAD + SLOTS as usize / 2 * 64;
    // SAFETY: slots that nobody uses yet.
    let refused = unsafe {
        let from = base.add(second_half).cast();
        libc::mprotect(from, SLOTS as usize / 2 * 64, libc::PROT_NONE)
    };
    assert_eq!(refused, 0);
    record_and_read(&path, writer, SLOTS);
    assert!(writer.is_partly_private());
    assert!(!writer.ring_path().unwrap().exists());
}

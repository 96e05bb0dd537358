//! Unnamed rings: read while their process runs, and merged by the process that has held them open.

use std::fs::{File, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use gpumem_capture::*;

use crate::elsewhere::{
    Nothing, SLOTS, count, event, is_read_while_it_runs, killed, options, read_any,
};
use crate::support::{AT_MOST, in_memory, patient};

#[test]
fn memory_without_a_name_is_read_while_its_process_runs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.bin");
    let wanted = patient(SLOTS).ring(RingPlace::Memfd);
    let writer = Writer::create(&path, &wanted).unwrap();
    is_read_while_it_runs(writer, &path);
    let ring = writer.ring_handle().unwrap().unwrap();
    let mode = ring.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(merge_held(&path, ring).unwrap(), Merged::InUse);
}

#[test]
fn a_ring_that_was_held_open_is_taken_over_though_its_name_is_gone() {
    for (events, drained) in [(700, false), (20_000, true)] {
        let folder = tempfile::tempdir().unwrap();
        let rings = in_memory();
        let (path, ring) = killed(folder.path(), rings.path(), events, drained);
        let held = || File::open(&ring).unwrap();
        let (first, second) = (held(), held());
        std::fs::remove_file(&ring).unwrap();
        assert!(matches!(count(&path).1.ring, RingState::Gone(_)));
        assert_eq!(merge_held(&path, first).unwrap(), Merged::Done);
        let (found, integrity) = count(&path);
        assert!(integrity.is_whole(), "{integrity:?}");
        assert_eq!((found, integrity.ring), (events, RingState::NotNeeded));
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(merge_held(&path, second).unwrap(), Merged::Nothing);
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
    }
}

#[test]
fn a_ring_that_still_has_its_name_loses_it() {
    let folder = tempfile::tempdir().unwrap();
    let rings = in_memory();
    let (path, ring) = killed(folder.path(), rings.path(), 700, false);
    assert_eq!(
        merge_held(&path, File::open(&ring).unwrap()).unwrap(),
        Merged::Done
    );
    assert!(!ring.exists());
}

#[test]
fn what_is_held_is_examined_as_any_ring_is() {
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let rings = in_memory();
    let (path, ring) = killed(folder.path(), rings.path(), 300, false);
    let (_, foreign) = killed(other.path(), rings.path(), 200, false);
    let before = std::fs::read(&path).unwrap();
    let refused = |ring: &Path, why: &str| {
        let error = merge_held(&path, File::open(ring).unwrap()).unwrap_err();
        assert!(error.to_string().contains("take the ring over"), "{error}");
        assert!(error.source.to_string().contains(why), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), before);
    };
    refused(&foreign, "another capture");
    refused(folder.path(), "not an ordinary file");
    let mode = |mode| std::fs::set_permissions(&ring, Permissions::from_mode(mode)).unwrap();
    mode(0o640);
    refused(&ring, "others than its owner");
    mode(0o600);
    assert_eq!(
        merge_held(&path, File::open(&ring).unwrap()).unwrap(),
        Merged::Done
    );
}

/// A file whose process died before it wrote anything there, and whose ring is gone, is empty and not damaged.
#[test]
fn a_file_that_was_only_created_is_not_damaged() {
    for bounded in [None, Some(12 << 20)] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.bin");
        let rings = in_memory();
        let wanted = options(rings.path()).bounded(bounded);
        let writer = Writer::create(&path, &wanted).unwrap();
        writer.event(&event(writer, 0)).unwrap();
        let bytes = crate::elsewhere::without_ring(std::fs::read(&path).unwrap());
        std::fs::write(&path, bytes).unwrap();
        let (_, integrity) = read_any(&path);
        assert!(integrity.damage.is_empty(), "{integrity:?}");
        assert!(
            matches!(integrity.ring, RingState::Gone(_)),
            "{integrity:?}"
        );
        assert_eq!((integrity.events, integrity.clean_exit), (0, false));
    }
}

/// The contents of a bounded capture whose ring is gone: everything that the drain had written, and the time after
/// which nothing is known.
#[test]
fn a_bounded_capture_whose_ring_is_gone_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.bin");
    let rings = in_memory();
    let wanted = options(rings.path()).bounded(Some(12 << 20));
    let writer = Writer::create(&path, &wanted).unwrap();
    let thread = std::thread::spawn(|| writer.drain_bounded(&mut Nothing));
    for n in 0..5000 {
        writer.event(&event(writer, n)).unwrap();
    }
    let copy = folder.path().join("copy.bin");
    let known = |copy: &Path| {
        std::fs::copy(&path, copy).unwrap();
        std::fs::write(
            copy,
            crate::elsewhere::without_ring(std::fs::read(copy).unwrap()),
        )
        .unwrap();
        read_any(copy).1
    };
    // For a copy at any time, the content is a prefix of the records, and the reader claims no more.
    for _ in 0..20 {
        let integrity = known(&copy);
        assert!(
            matches!(integrity.ring, RingState::Gone(_)),
            "{integrity:?}"
        );
        assert!(integrity.damage.is_empty(), "{integrity:?}");
    }
    assert!(writer.await_written(AT_MOST));
    let integrity = known(&copy);
    assert_eq!(integrity.events, 5000, "{integrity:?}");
    assert!(!integrity.clean_exit);
    writer.finish();
    assert!(writer.close(AT_MOST));
    thread.join().unwrap();
}

#[test]
fn a_merged_capture_that_was_cut_off_is_not_whole() {
    let folder = tempfile::tempdir().unwrap();
    let rings = in_memory();
    let (path, _) = killed(folder.path(), rings.path(), 700, false);
    assert_eq!(merge(&path).unwrap(), Merged::Done);
    let length = std::fs::metadata(&path).unwrap().len();
    for cut in [1, 64, 4096, 20_000, u64::from(SLOTS) * 64] {
        let copy = folder.path().join("copy.bin");
        std::fs::copy(&path, &copy).unwrap();
        let file = File::options().write(true).open(&copy).unwrap();
        file.set_len(length - cut).unwrap();
        let (_, integrity) = read_any(&copy);
        assert!(!integrity.damage.is_empty(), "{cut} bytes: {integrity:?}");
    }
}

#[test]
fn the_capture_of_another_user_is_read_and_not_written_to() {
    let folder = tempfile::tempdir().unwrap();
    let rings = in_memory();
    let (path, _) = killed(folder.path(), rings.path(), 700, false);
    let before = std::fs::read(&path).unwrap();
    // Only root can give a file away.
    if std::os::unix::fs::chown(&path, Some(4711), None).is_err() {
        return;
    }
    let merged = merge(&path);
    assert!(!matches!(merged, Ok(Merged::Done)), "{merged:?}");
    assert_eq!(std::fs::read(&path).unwrap(), before);
    assert_eq!(read_any(&path).1.events, 700);
}

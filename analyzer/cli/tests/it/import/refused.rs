//! Files that are not snapshots, and snapshots with cycles.

use std::cell::Cell;

use gpumem_analyzer::import::torch_snapshot;
use proptest::prelude::*;

use super::*;

#[test]
fn what_is_no_snapshot_is_refused_in_one_line_and_nothing_is_written() {
    let folder = tempdir().expect("a folder");
    let runs = b"\x80\x04cos\nsystem\n(X\x02\0\0\0idtR.";
    for (pickle, says) in [
        (
            &runs[..],
            "dump.pickle: byte 2: opcode GLOBAL would run code that the file names",
        ),
        (b"\x80\x04K\x01.", "neither a dict nor a list of segments"),
        (b"\x80\x04}.", "no list of segments"),
        (b"\x80\x04](}e.", "segment 0 has no list of blocks"),
        (b"", "the file is empty"),
    ] {
        let (file, said, code) = imported(folder.path(), pickle);
        assert_eq!((code, said.lines().count()), (Some(1), 1), "{said}");
        assert!(said.contains(says), "{said}");
        assert!(!file.exists());
        assert_eq!(
            std::fs::read_dir(folder.path()).expect("a folder").count(),
            1
        );
    }
}

#[test]
fn a_list_that_is_named_again_and_again_is_refused() {
    // One trace of a thousand entries, a thousand times.
    let entry = b"}(\x8c\x06action\x8c\x03oom\x8c\x04sizeK\x01u\x94";
    let mut bytes = b"\x80\x04}(\x8c\x08segments]\x8c\x0ddevice_traces](](".to_vec();
    bytes.extend_from_slice(entry);
    bytes.extend(b"h\x00".repeat(999));
    bytes.extend_from_slice(b"e\x94");
    bytes.extend(b"h\x01".repeat(999));
    bytes.extend_from_slice(b"eu.");
    let folder = tempdir().expect("a folder");
    let (_, said, code) = imported(folder.path(), &bytes);
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("it refers to the same lists too often"),
        "{said}"
    );
}

#[test]
fn no_snapshot_breaks_the_import() {
    let seed = training();
    let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..6_u8), 1..6);
    let taken = Cell::new(0);
    proptest!(ProptestConfig::with_cases(200), |(changes in changes)| {
        let mut bytes = seed.clone();
        for (at, byte, how) in changes {
            let at = at.index(bytes.len());
            match how {
                0 => bytes.insert(at, byte),
                1 if bytes.len() > 1 => drop(bytes.remove(at)),
                _ => bytes[at] = byte,
            }
        }
        let folder = tempdir().expect("a folder");
        let file = folder.path().join("made.bin");
        if torch_snapshot(&bytes, "made", &file).is_ok() {
            taken.set(taken.get() + 1);
            let end = gpumem_analyzer::replay::At::End;
            let session = gpumem_analyzer::ask::read(&file, end).expect("a capture");
            let account = session.account;
            let made_up = |line: &String| line.contains("own figure differed");
            prop_assert!(account.missing.iter().all(made_up), "{:?}", account.missing);
        }
    });
    assert!(taken.get() > 5, "{taken:?}");
}

//! Files that are not captures, or only a part of one: one clear line each, and the documented exit code (1: no result,
//! 3: a partial one).
//!
//! These tests find a panic, an error without the file's name, a report of a file that is not a capture, exit code 0
//! for a part, and a wrong figure because of damage.

mod campaign;
mod dice;

use std::path::Path;

use gpumem_capture::fuzzing::ring_seed;
use tempfile::tempdir;

use crate::captures::{contents, none};
use crate::run::{analyze, json_of, stderr, stdout};

const VIEWS: [&[&str]; 5] = [
    &["check"],
    &["report", "--all"],
    &["lines"],
    &["flamegraph"],
    &[],
];
/// A closed capture: it ends with its last page.
const CLOSED: &str = "torch-return";

/// The fault in the answer of a view to a file without a result: one line names the file and has the words.
fn fault(view: &[&str], file: &Path, words: &[&str]) -> Option<String> {
    let output = analyze(view, file);
    let said = stderr(&output);
    let is_one_line = said.lines().count() == 1 && said.contains(&file.display().to_string());
    let has_words = words.iter().all(|word| said.contains(word));
    let is_right = output.status.code() == Some(1) && output.stdout.is_empty();
    (!is_right || !is_one_line || !has_words).then(|| {
        let (code, name) = (output.status.code(), file.display());
        format!(
            "{view:?} {name}: {code:?}, without {words:?}: {said}{}",
            stdout(&output)
        )
    })
}

/// A file's name, its contents (`None`: there is no file), and words of the message.
type File<'a> = (&'a str, Option<Vec<u8>>, &'a [&'a str]);

#[test]
fn a_file_that_is_not_a_capture_is_refused_in_one_line() {
    let folder = tempdir().expect("a folder");
    let mut future = contents(CLOSED);
    // Both copies of the header, by capture/SPEC.md.
    for copy in [0, 2048] {
        assert_eq!(&future[copy..copy + 8], b"\x89GPUMEM\n");
        future[copy + 8..copy + 12].copy_from_slice(&99_u32.to_le_bytes());
    }
    let foreign = &["not a gpumem capture"][..];
    let files: [File<'_>; 7] = [
        ("absent.bin", None, &["No such file"]),
        ("empty.bin", Some(vec![]), &["empty"]),
        ("script.bin", Some(b"#!/bin/sh\n".repeat(4000)), foreign),
        (
            "program.bin",
            Some([&b"\x7fELF"[..], &[0; 100_000]].concat()),
            foreign,
        ),
        ("letter.bin", Some(b"x".to_vec()), foreign),
        ("zeros.bin", Some(vec![0; 70_000]), foreign),
        ("future.bin", Some(future), &["99", "version"]),
    ];
    let mut faults = Vec::new();
    for (name, contents, words) in files {
        let file = folder.path().join(name);
        if let Some(contents) = contents {
            std::fs::write(&file, contents).expect("a file");
        }
        faults.extend(VIEWS.iter().filter_map(|view| fault(view, &file, words)));
    }
    faults.extend(fault(&["report", "--all"], folder.path(), &[]));
    none(&faults);
}

#[test]
fn a_part_of_a_header_has_no_result() {
    let folder = tempdir().expect("a folder");
    let capture = contents(CLOSED);
    let cut = |length: usize| {
        let file = folder.path().join(format!("{length}.bin"));
        std::fs::write(&file, &capture[..length]).expect("a file");
        fault(&["report", "--all"], &file, &[])
    };
    none(&Vec::from_iter(
        [1, 8, 100, 511, 3000].into_iter().filter_map(cut),
    ));
}

/// The intact part is reported with exit code 3, and the missing parts are listed. Without an intact part, exit code 1
/// and one line; never 0.
#[test]
fn a_part_of_a_capture_is_partial() {
    let folder = tempdir().expect("a folder");
    let capture = contents(CLOSED);
    for fifths in [1, 2, 3, 4] {
        let file = folder.path().join(format!("{fifths}.bin"));
        std::fs::write(&file, &capture[..capture.len() * fifths / 5]).expect("a file");
        let output = analyze(&["check"], &file);
        let (code, said) = (output.status.code(), stdout(&output) + &stderr(&output));
        assert!(
            matches!(code, Some(1 | 3)) && !said.trim().is_empty(),
            "{fifths}: {code:?}: {said}"
        );
    }
}

#[test]
fn a_torn_last_page_is_noticed() {
    let folder = tempdir().expect("a folder");
    let capture = contents(CLOSED);
    for missing in [1, 100, 1000] {
        let file = folder.path().join(format!("{missing}.bin"));
        std::fs::write(&file, &capture[..capture.len() - missing]).expect("a file");
        let output = analyze(&["check"], &file);
        assert_eq!(
            output.status.code(),
            Some(3),
            "{missing}: {}",
            stdout(&output)
        );
        let (summary, code) = json_of(&["report", "--all", "--format", "json"], &file);
        assert_eq!((&summary["exact"], code), (&false.into(), 3), "{missing}");
    }
}

/// A killed capture of one thread whose ring has two unfinished records, with its last `count` records unfinished too.
fn unfinished(count: usize) -> Vec<u8> {
    const SLOT: usize = 65;
    const RECORD: u8 = 0;
    let mut capture = contents("killed");
    let seed = ring_seed(&capture);
    let records = seed[3..].rchunks_exact(SLOT);
    for slot in records.filter(|slot| slot[0] == RECORD).take(count) {
        let at = capture
            .windows(SLOT - 1)
            .position(|bytes| bytes == &slot[1..]);
        let at = at.expect("the slot in the capture");
        // The commit word.
        capture[at..at + 8].fill(0);
    }
    capture
}

/// A thread has one unfinished record at most.
#[test]
fn more_unfinished_records_than_threads_are_damage() {
    let folder = tempdir().expect("a folder");
    for (count, code, words) in [(1, 0, "inside 3 hooks"), (2, 3, "begun and never finished")] {
        let file = folder.path().join(format!("{count}.bin"));
        std::fs::write(&file, unfinished(count)).expect("a file");
        let output = analyze(&["report", "--all"], &file);
        let said = stdout(&output) + &stderr(&output);
        assert!(said.contains(words), "{count}: {said}");
        assert_eq!(output.status.code(), Some(code), "{count}: {said}");
    }
}

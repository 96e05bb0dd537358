//! Temporary blocks and sizes, on captures with known bytes.

use std::path::{Path, PathBuf};

use gpumem_capture::{EventFlags, EventKind, Level, StackId};
use serde_json::{Value, json};
use tempfile::tempdir;

use crate::golden::{golden, masked};
use crate::run::{analyze, json_of, stderr, stdout};
use crate::synthetic::{M, Synthetic};
use crate::training::training;

const TRAIN: &str = "/home/me/run/train.py";

/// Kept: 10 MiB (line 5). Line 8 allocates three blocks that the next event frees: 4, 20 and 6 MiB. The second makes
/// the peak, 30 MiB. Line 9 allocates one of 2 MiB that is freed two events later, and one of 1 MiB that is kept.
fn passing(folder: &Path) -> PathBuf {
    let mut capture = Synthetic::new(folder);
    let [keep, spike, other] =
        [5, 8, 9].map(|line| capture.python(&[(TRAIN, "train", line, true)]));
    let none = StackId::NONE;
    capture.tensor(0x100, 10 * M, 0, keep, none);
    for mib in [4, 20, 6] {
        capture.tensor(0x200, mib * M, 0, spike, none);
        // Events of another level do not count here.
        capture.alloc(Level::DRIVER, 0x900 + mib, M, spike, none);
        capture.free_tensor(0x200, mib * M, 0, none);
    }
    capture.tensor(0x300, 2 * M, 0, other, none);
    capture.tensor(0x400, M, 0, other, none);
    capture.free_tensor(0x300, 2 * M, 0, none);
    capture.finish()
}

fn of(arguments: &[&str], file: &Path) -> Value {
    let (value, exit) = json_of(&[arguments, &["--format", "json"]].concat(), file);
    assert_eq!(exit, 0, "{value}");
    value
}

/// Rows as (line, MiB, blocks, largest, in the peak, all blocks).
fn rows(found: &Value) -> Vec<[u64; 6]> {
    let number = |value: &Value| value.as_u64().expect("a number");
    let rows = found["rows"].as_array().expect("rows").iter();
    let rows: Vec<[u64; 6]> = rows
        .map(|row| {
            let mib = |key: &str| number(&row[key]) / M;
            [
                number(&row["line"]),
                mib("bytes"),
                number(&row["blocks"]),
                mib("largest_bytes"),
                mib("peak_bytes"),
                number(&row["all_blocks"]),
            ]
        })
        .collect();
    let sum = |at: usize| rows.iter().map(|row| row[at]).sum::<u64>();
    assert_eq!(number(&found["bytes"]) / M, sum(1));
    assert_eq!(number(&found["blocks"]), sum(2));
    rows
}

#[test]
fn what_the_next_event_frees_is_temporary() {
    let folder = tempdir().expect("a folder");
    let file = passing(folder.path());
    let found = of(&["lines", "--of", "temporary"], &file);
    assert_eq!(rows(&found), [[8, 30, 3, 20, 20, 3]]);
    assert_eq!(
        (&found["all_blocks"], &found["all_bytes"]),
        (&json!(6), &json!(43 * M))
    );
    let found = of(&["lines", "--of", "temporary", "--within", "2"], &file);
    assert_eq!(rows(&found), [[8, 30, 3, 20, 20, 3], [9, 2, 1, 2, 0, 2]]);
    let found = of(
        &[
            "lines",
            "--of",
            "temporary",
            "--within",
            "2",
            "--size",
            "..4MiB",
        ],
        &file,
    );
    assert_eq!(rows(&found), [[8, 4, 1, 4, 0, 1], [9, 2, 1, 2, 0, 2]]);
    let output = analyze(&["lines", "--of", "temporary", "--within", "2"], &file);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    golden("temporary.txt", &masked(&stdout(&output), folder.path()));
}

#[test]
fn what_is_freed_soon_enough_is_temporary_too() {
    let folder = tempdir().expect("a folder");
    let file = passing(folder.path());
    // A millisecond per event: those of line 8 live for two, and so does that of line 9.
    assert_eq!(
        rows(&of(
            &["lines", "--of", "temporary", "--within", "1.999ms"],
            &file
        )),
        [[0_u64; 6]; 0]
    );
    let found = of(&["lines", "--of", "temporary", "--within", "2ms"], &file);
    assert_eq!(rows(&found), [[8, 30, 3, 20, 20, 3], [9, 2, 1, 2, 0, 2]]);
    let none = stdout(&analyze(
        &["lines", "--of", "temporary", "--within", "0.5ms"],
        &file,
    ));
    assert_eq!(
        none,
        "No block was freed within 0.5 ms: of 6 allocations of the tensor level with 43.0 MiB.\n"
    );
    for wrong in [
        &["--within", "0"][..],
        &["--within", "x"],
        &["--within", "2", "--within", "1ms"],
    ] {
        let output = analyze(&[&["lines", "--of", "temporary"], wrong].concat(), &file);
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
fn a_free_that_was_cancelled_made_nothing_temporary() {
    let folder = tempdir().expect("a folder");
    let mut capture = Synthetic::new(folder.path());
    let line = capture.python(&[(TRAIN, "train", 7, true)]);
    capture.alloc(Level::DRIVER, 0x1000, 4 * M, line, StackId::NONE);
    let free = capture.freed(Level::DRIVER, 0x1000, 4 * M, EventFlags::NONE);
    capture.event(gpumem_capture::Event {
        kind: EventKind::CANCEL,
        level: Level::DRIVER,
        ptr: 0x1000,
        bytes: 4 * M,
        aux: free.0,
        ..Default::default()
    });
    let file = capture.finish();
    let found = of(&["lines", "--of", "temporary"], &file);
    assert_eq!(
        (rows(&found), &found["all_blocks"]),
        (Vec::new(), &json!(1))
    );
    let found = of(&["lines", "--by", "size", "--at", "end"], &file);
    let figures = ["allocations", "live_blocks"].map(|key| found[0][key].as_u64());
    assert_eq!(figures, [Some(1), Some(1)]);
}

/// Rows as (from, to, allocations, MiB, live, MiB).
fn histogram(found: &Value) -> Vec<[u64; 6]> {
    let rows = found[0]["rows"].as_array().expect("rows").iter();
    let keys = [
        "from_bytes",
        "to_bytes",
        "allocations",
        "allocated_bytes",
        "live_blocks",
        "live_bytes",
    ];
    let rows: Vec<[u64; 6]> = rows
        .map(|row| keys.map(|key| row[key].as_u64().expect(key)))
        .collect();
    for (at, key) in keys.iter().enumerate().skip(2) {
        let sum: u64 = rows.iter().map(|row| row[at]).sum();
        assert_eq!(found[0][*key], sum, "{key}");
    }
    rows
}

#[test]
fn blocks_are_counted_by_powers_of_two_or_by_size() {
    let folder = tempdir().expect("a folder");
    let file = passing(folder.path());
    let peak = histogram(&of(&["lines", "--by", "size"], &file));
    let row = |from: u64, allocated: (u64, u64), live: (u64, u64)| {
        [
            from * M,
            2 * from * M - 1,
            allocated.0,
            allocated.1 * M,
            live.0,
            live.1 * M,
        ]
    };
    assert_eq!(
        peak,
        [
            row(1, (1, 1), (0, 0)),
            row(2, (1, 2), (0, 0)),
            row(4, (2, 10), (0, 0)),
            row(8, (1, 10), (1, 10)),
            row(16, (1, 20), (1, 20)),
        ]
    );
    let end = histogram(&of(
        &["lines", "--by", "size", "--all", "--at", "end"],
        &file,
    ));
    let row = |mib: u64, live: u64| [mib * M, mib * M, 1, mib * M, live, live * mib * M];
    assert_eq!(
        end,
        [
            row(1, 1),
            row(2, 0),
            row(4, 0),
            row(6, 0),
            row(10, 1),
            row(20, 0)
        ]
    );
    let output = analyze(&["lines", "--by", "size"], &file);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    golden("sizes.txt", &masked(&stdout(&output), folder.path()));
}

#[test]
fn live_blocks_are_those_of_the_lines_at_every_moment() {
    let folder = tempdir().expect("a folder");
    let file = training(folder.path()).finish();
    let (changes, _) = json_of(&["changes", "--format", "json"], &file);
    let seqs = changes.as_array().unwrap().iter();
    let mut moments: Vec<String> = seqs.map(|change| change["seq"].to_string()).collect();
    moments.extend(["peak".to_owned(), "end".to_owned()]);
    for at in &moments {
        for part in [&[][..], &["--function", "Net."], &["--size", "3MiB..50MiB"]] {
            let arguments = [&["--at", at][..], part].concat();
            let lines = of(&[&["lines"], &arguments[..]].concat(), &file);
            let sum = |key: &str| {
                let rows = lines.as_array().unwrap().iter();
                rows.map(|row| row[key].as_u64().unwrap()).sum::<u64>()
            };
            let found = of(
                &[&["lines", "--by", "size"], &arguments[..]].concat(),
                &file,
            );
            histogram(&found);
            assert_eq!(found[0]["live_bytes"], sum("bytes"), "{arguments:?}");
            assert_eq!(found[0]["live_blocks"], sum("blocks"), "{arguments:?}");
        }
    }
    assert!(moments.len() > 4);
}

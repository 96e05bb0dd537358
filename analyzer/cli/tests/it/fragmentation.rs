//! Fragmentation of PyTorch's pool, and kinds of flamegraph, on captures with known bytes.

use std::path::{Path, PathBuf};

use gpumem_capture::{Event, EventFlags, EventKind, Level, StackId};
use serde_json::{Value, json};
use tempfile::tempdir;

use crate::golden::{golden, masked};
use crate::ledger::C10;
use crate::phases::two_steps;
use crate::run::{analyze, json_of, stderr, stdout};
use crate::synthetic::{M, Synthetic};
use crate::training::training;

const TRAIN: &str = "/home/me/run/train.py";

/// Two segments, of 32 MiB and 8 MiB. Live in the first are 4 MiB at its start, 8 at 16 MiB, and 2 at its end; earlier
/// also 10 at 5 MiB. A request for 12 MiB fails. The second is full, then empty.
fn pieces(folder: &Path) -> PathBuf {
    let mut capture = Synthetic::new(folder);
    let [a, b] = [5, 8].map(|line| capture.python(&[(TRAIN, "train", line, true)]));
    let (first, second, none) = (0x1000_0000, 0x4000_0000, StackId::NONE);
    capture.asked(first, 32 * M, EventFlags::NONE, C10, a);
    for (at, mib) in [(0, 4), (5, 10), (16, 8), (30, 2)] {
        capture.tensor(
            first + at * M,
            mib * M,
            32 * M,
            if at == 16 { b } else { a },
            none,
        );
    }
    capture.free_tensor(first + 5 * M, 10 * M, 32 * M, none);
    capture.event(Event {
        kind: EventKind::OUT_OF_MEMORY,
        bytes: 13 * M,
        level: Level::TENSOR,
        py_stack: b,
        ..Event::default()
    });
    capture.asked(second, 8 * M, EventFlags::NONE, C10, b);
    capture.tensor(second, 8 * M, 40 * M, b, none);
    capture.free_tensor(second, 8 * M, 40 * M, none);
    capture.finish()
}

fn found(arguments: &[&str], file: &Path) -> Value {
    let arguments = [&["ledger", "--pool", "--format", "json"], arguments].concat();
    let (value, exit) = json_of(&arguments, file);
    assert_eq!(exit, 0, "{value}");
    value[0].clone()
}

fn figures(of: &Value, keys: [&str; 4]) -> [u64; 4] {
    keys.map(|key| of[key].as_u64().unwrap_or_else(|| panic!("{key}: {of}")) / M)
}

const POOL: [&str; 4] = [
    "reserved_bytes",
    "live_bytes",
    "free_bytes",
    "largest_free_block_bytes",
];

#[test]
fn free_pieces_are_told_with_their_places_and_what_has_no_room() {
    let folder = tempdir().expect("a folder");
    let file = pieces(folder.path());
    let end = found(&["--at", "end"], &file);
    assert_eq!(figures(&end, POOL), [40, 14, 26, 12]);
    assert_eq!(
        (&end["free_blocks"], &end["fragmented_percent"]),
        (&json!(3), &json!(54))
    );
    assert_eq!(
        (&end["request_bytes"], &end["too_small_bytes"]),
        (&json!(13 * M), &json!(26 * M)),
        "what the failed allocation asked for"
    );
    let wide = found(&["--at", "end", "--request", "9MiB"], &file);
    assert_eq!(wide["too_small_bytes"], 14 * M);
    let free = |segment: &Value| -> Vec<(u64, u64)> {
        let start = segment["address"].as_u64().unwrap();
        let parts = segment["free"].as_array().unwrap().iter();
        parts
            .map(|part| {
                let at = part["address"].as_u64().unwrap() - start;
                (at / M, part["bytes"].as_u64().unwrap() / M)
            })
            .collect()
    };
    let segments = end["segments"].as_array().expect("segments");
    assert_eq!(free(&segments[0]), [(4, 12), (24, 6)]);
    assert_eq!(free(&segments[1]), [(0, 8)]);
    assert_eq!(
        segments[0]["lines"].as_array().unwrap().len(),
        2,
        "who pins it"
    );
    let peak = found(&[], &file);
    assert_eq!(figures(&peak, POOL), [32, 24, 8, 6]);
    assert_eq!(free(&peak["segments"][0]), [(4, 1), (15, 1), (24, 6)]);
}

#[test]
fn over_time_the_moments_with_most_free_are_told_and_failures() {
    let folder = tempdir().expect("a folder");
    let file = pieces(folder.path());
    let found = found(&[], &file);
    let pool = ["reserved_bytes", "live_bytes", "free_bytes", "time_ns"];
    let peak = &found["reserved_peak"];
    assert_eq!(figures(peak, pool)[..3], [40, 22, 18]);
    assert_eq!(figures(&found["at_reserved_peak"], POOL), [40, 22, 18, 12]);
    let failures = found["failures"].as_array().expect("failures");
    assert_eq!(
        (failures.len(), &failures[0]["requested_bytes"]),
        (1, &json!(13 * M))
    );
    assert_eq!(figures(&failures[0], pool)[..3], [32, 14, 18]);
    let times = found["times"].as_array().expect("times").iter();
    let free: Vec<u64> = times
        .map(|time| time["free_bytes"].as_u64().unwrap() / M)
        .collect();
    assert_eq!(
        free,
        [28, 18, 10, 8, 18, 18, 26],
        "one event each, there are so few"
    );
}

#[test]
fn the_map_shows_what_is_used() {
    let folder = tempdir().expect("a folder");
    let file = pieces(folder.path());
    let output = analyze(&["ledger", "--pool", "--at", "end"], &file);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    assert!(text.contains("████············████████······██"), "{text}");
    golden("fragmentation.txt", &masked(&text, folder.path()));
}

#[test]
fn a_program_without_a_pool_is_told_so() {
    let folder = tempdir().expect("a folder");
    let mut capture = Synthetic::new(folder.path());
    capture.alloc(Level::DRIVER, 0x1000, M, StackId::NONE, StackId::NONE);
    let file = capture.finish();
    let output = analyze(&["ledger", "--pool"], &file);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(stdout(&output), "PyTorch reserved no memory.\n");
}

/// The columns of `flamegraph --format folded`, summed, in MiB.
fn columns(arguments: &[&str], file: &Path) -> Vec<u64> {
    let output = analyze(
        &[&["flamegraph", "--format", "folded"], arguments].concat(),
        file,
    );
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let differs = arguments
        .iter()
        .any(|word| ["--from", "--diff"].contains(word));
    let count = if differs { 2 } else { 1 };
    let mut sums = vec![0; count];
    for line in stdout(&output).lines() {
        let figures = line.rsplitn(count + 1, ' ').take(count);
        for (sum, figure) in sums.iter_mut().rev().zip(figures) {
            *sum += figure.parse::<u64>().expect("bytes");
        }
    }
    sums.iter().map(|sum| sum / M).collect()
}

#[test]
fn flamegraphs_are_of_what_was_asked_for() {
    let folder = tempdir().expect("a folder");
    let file = training(folder.path()).finish();
    assert_eq!(columns(&[], &file), [202]);
    assert_eq!(columns(&["--of", "allocated"], &file), [202]);
    assert_eq!(
        columns(&["--of", "allocated", "--function", "Net."], &file),
        [120]
    );
    assert_eq!(
        columns(&["--of", "temporary", "--within", "2"], &file),
        [60]
    );
    assert_eq!(
        columns(&["--from", "peak", "--at", "end"], &file),
        [202, 102]
    );
    let path = file.to_str().expect("UTF-8");
    assert_eq!(columns(&["--diff", path, "--at", "end"], &file), [102, 102]);
    let folded = stdout(&analyze(
        &["flamegraph", "--format", "folded", "--by", "function"],
        &file,
    ));
    assert!(
        folded.contains("<module> (train.py);Net.forward (train.py);"),
        "{folded}"
    );
    let leaked = analyze(&["flamegraph", "--of", "leaked"], &file);
    assert_eq!(leaked.status.code(), Some(1));
    assert!(
        stderr(&leaked).contains("no line of the tensor level grows"),
        "{}",
        stderr(&leaked)
    );
    let mixed = analyze(&["flamegraph", "--of", "temporary", "--from", "end"], &file);
    assert_eq!(mixed.status.code(), Some(1));
}

#[test]
fn the_phases_of_a_step_are_told_from_the_next() {
    let folder = tempdir().expect("a folder");
    let file = two_steps(folder.path()).finish();
    assert_eq!(
        columns(&["--from", "step=1", "--at", "peak"], &file),
        [66, 175]
    );
    let picture = analyze(&["flamegraph", "--from", "step=1", "-o", "-"], &file);
    let text = stdout(&picture);
    assert!(
        text.contains("175 MiB in 9 stacks, 109 MiB more than at the end of step 1"),
        "{text}"
    );
    let icicle = stdout(&analyze(
        &["flamegraph", "--format", "icicle", "-o", "-"],
        &file,
    ));
    let upright = stdout(&analyze(&["flamegraph", "-o", "-"], &file));
    assert!(icicle.len() > 1000 && icicle != upright);
}

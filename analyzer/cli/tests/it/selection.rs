//! Points in time and filters, which all views share.

use std::path::Path;

use gpumem_capture::{EventKind, Level, StackId};
use serde_json::Value;
use tempfile::tempdir;

use crate::phases::two_steps;
use crate::run::{analyze, json_of, stderr, stdout};
use crate::synthetic::{M, Synthetic};
use crate::training::training;

/// MiB over all rows of `lines` with these arguments.
fn sum(arguments: &[&str], file: &Path) -> u64 {
    let (rows, exit) = json_of(&[&["lines", "--format", "json"], arguments].concat(), file);
    assert_eq!(exit, 0, "{arguments:?}");
    let rows = rows.as_array().expect("an array");
    let bytes: u64 = rows.iter().map(|row| row["bytes"].as_u64().unwrap()).sum();
    assert_eq!(bytes % M, 0);
    bytes / M
}

/// The one line on stderr of a command that has no result.
fn refused(arguments: &[&str], file: &Path) -> String {
    let output = analyze(arguments, file);
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    assert_eq!(stdout(&output), "");
    let text = stderr(&output);
    assert_eq!(text.lines().count(), 1, "{text}");
    text
}

#[test]
fn what_a_filter_takes_and_what_it_leaves_are_the_whole() {
    let folder = tempdir().expect("a folder");
    let file = training(folder.path()).finish();
    for at in ["peak", "end"] {
        let of = |arguments: &[&str]| sum(&[&["--at", at], arguments].concat(), &file);
        let whole = of(&[]);
        assert_eq!(whole, if at == "peak" { 202 } else { 102 });
        assert_eq!(
            of(&["--size", "..3MiB"]) + of(&["--size", "3145729.."]),
            whole
        );
        assert_eq!(of(&["--size", "3MiB"]), 12, "{at}");
        let (module, net) = (of(&["--function", "<module>"]), of(&["--function", "Net."]));
        assert_eq!(module + net + 30, whole, "30 MiB have no line");
        assert_eq!(of(&["--file", "train.py"]), module + net);
        assert_eq!(of(&["--file", "train.py", "--function", "Net."]), net);
        assert_eq!(of(&["--library", "libtorch_cuda"]), whole);
        assert_eq!(of(&["--device", "0"]), whole);
        let none = analyze(&["lines", "--at", at, "--device", "1"], &file);
        assert_eq!(none.status.code(), Some(2), "it has one GPU");
    }
    let of = |library| sum(&["--level", "driver", "--library", library], &file);
    assert_eq!((of("libc10"), of("libcublas"), of("lib")), (256, 32, 288));
}

#[test]
fn devices_are_told_apart() {
    let folder = tempdir().expect("a folder");
    let mut capture = Synthetic::new(folder.path());
    capture.device(1);
    let line = capture.python(&[("a.py", "f", 1, true)]);
    for (device, bytes) in [(0, M), (1, 10 * M), (1, 30 * M)] {
        capture.event(gpumem_capture::Event {
            kind: EventKind::ALLOC,
            level: Level::TENSOR,
            device: gpumem_capture::DeviceOrdinal(device),
            ptr: bytes,
            bytes,
            py_stack: line,
            ..Default::default()
        });
    }
    let file = capture.finish();
    let of = |arguments: &[&str]| sum(arguments, &file);
    assert_eq!(
        (of(&["--device", "0"]), of(&["--device", "1"]), of(&[])),
        (1, 40, 41)
    );
    assert_eq!(of(&["--device", "1", "--size", "20MiB.."]), 30);
    let (tree, _) = json_of(&["tree", "--device", "1", "--format", "json"], &file);
    assert_eq!(tree["bytes"], 40 * M);
    let text = stdout(&analyze(
        &["lines", "--device", "1", "--size", "20MiB.."],
        &file,
    ));
    assert!(
        text.contains("at the peak, GPU 1, blocks of 20.0 MiB or more"),
        "{text}"
    );
    assert!(text.ends_with("Together 30.0 MiB.\n"), "{text}");
}

#[test]
fn every_view_has_the_same_part() {
    let folder = tempdir().expect("a folder");
    let file = training(folder.path()).finish();
    let part = ["--at", "end", "--function", "Net.", "--size", "1MiB.."];
    let folded = stdout(&analyze(
        &[&["flamegraph", "--format", "folded"], &part[..]].concat(),
        &file,
    ));
    let bytes: u64 = folded
        .lines()
        .map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap())
        .sum();
    let (tree, _) = json_of(&[&["tree", "--format", "json"], &part[..]].concat(), &file);
    assert_eq!((sum(&part, &file), bytes / M), (60, 60));
    assert_eq!(tree["bytes"], 60 * M);
}

#[test]
fn a_time_and_the_event_before_it_are_one_moment() {
    let folder = tempdir().expect("a folder");
    let file = training(folder.path()).finish();
    // One millisecond per event, the first at 3.201 s; the definitions have numbers too.
    let (changes, _) = json_of(&["changes", "--format", "json"], &file);
    let change = &changes[1];
    let (seq, time) = (&change["seq"], change["time_ns"].as_u64().unwrap());
    let whole = sum(&["--at", &format!("{time}ns")], &file);
    assert_eq!(whole, sum(&["--at", &seq.to_string()], &file));
    assert_eq!(sum(&["--at", &format!("{}ns", time - 1)], &file), 12);
    let minutes = format!("00:0{}.{:09}", time / 1_000_000_000, time % 1_000_000_000);
    assert_eq!(sum(&["--at", &minutes], &file), whole);
    let ledger = |at: &str| {
        let (ledgers, exit) = json_of(&["ledger", "--at", at, "--format", "json"], &file);
        assert_eq!(exit, 0);
        ledgers[0]["rows"].clone()
    };
    assert_eq!(ledger(&minutes), ledger(&seq.to_string()));
    assert_ne!(ledger(&minutes), ledger("end"));
}

#[test]
fn the_end_of_a_step_is_a_moment() {
    let folder = tempdir().expect("a folder");
    let file = two_steps(folder.path()).finish();
    // The model, the optimizer's state and a gradient that stays until the next step zeroes it.
    assert_eq!(sum(&["--at", "step=1"], &file), 12 + 24 + 30);
    assert_eq!(sum(&["--at", "step=2"], &file), 12 + 24 + 30);
    let (ledgers, _) = json_of(&["ledger", "--at", "step=1", "--format", "json"], &file);
    let tensors = |row: &&Value| row["kind"] == "tensors";
    let row = ledgers[0]["rows"].as_array().unwrap().iter().find(tensors);
    assert_eq!(row.expect("tensors")["bytes"], 66 * M);
    let text = stdout(&analyze(&["lines", "--at", "step=1"], &file));
    assert!(text.contains("at the end of step 1"), "{text}");
}

#[test]
fn moments_and_captures_that_are_not_there_are_one_clear_line() {
    let folder = tempdir().expect("a folder");
    let file = two_steps(folder.path()).finish();
    for view in ["lines", "tree", "flamegraph", "ledger"] {
        let said = refused(&[view, "--at", "step=3"], &file);
        assert!(
            said.contains("step 3 did not end, 2 steps did: name one of those"),
            "{said}"
        );
        let said = refused(&[view, "--at", "1h"], &file);
        assert!(
            said.contains("no event exists after 1:00:00.000, the last is at 00:03."),
            "{said}"
        );
    }
    for view in ["lines", "tree", "flamegraph"] {
        let said = refused(&[view, "--rank", "7"], &file);
        assert!(said.contains("report.rank7.bin: "), "{said}");
    }
    let folder = tempdir().expect("a folder");
    let file = training(folder.path()).finish();
    let said = refused(&["lines", "--at", "step=1"], &file);
    assert!(
        said.contains("the capture has no steps: name an event or a time"),
        "{said}"
    );
    for wrong in [
        &["--at", "1.5"][..],
        &["--size", "2..1"],
        &["--at", "step=0"],
    ] {
        let output = analyze(&[&["lines"], wrong].concat(), &file);
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
fn a_rank_is_the_file_beside() {
    let folder = tempdir().expect("a folder");
    let other = training(folder.path()).finish();
    let third = folder.path().join("report.rank3.bin");
    std::fs::rename(&other, &third).expect("renamed");
    let mut capture = Synthetic::new(folder.path());
    capture.tensor(0x1000, M, M, StackId::NONE, StackId::NONE);
    let file = capture.finish();
    assert_eq!(sum(&[], &file), 1);
    assert_eq!(sum(&["--rank", "3"], &file), 202);
    let picture = analyze(&["flamegraph", "--rank", "3"], &file);
    assert_eq!(picture.status.code(), Some(0), "{}", stderr(&picture));
    assert!(folder.path().join("report.rank3.svg").exists());
}

/// MiB that changes added in total, minus those that they removed, and the last total.
fn moved(arguments: &[&str], file: &Path) -> (i64, u64) {
    let (changes, exit) = json_of(
        &[&["changes", "--format", "json"], arguments].concat(),
        file,
    );
    assert_eq!(exit, 0, "{arguments:?}");
    let changes = changes.as_array().expect("an array");
    let bytes = changes.iter().map(|change| change["change_bytes"].as_i64());
    let sum: i64 = bytes.map(|bytes| bytes.expect("a number")).sum();
    let last = changes
        .last()
        .map_or(0, |change| change["total_bytes"].as_u64().unwrap());
    (sum / M as i64, last / M)
}

#[test]
fn changes_take_the_filters_of_other_views() {
    let folder = tempdir().expect("a folder");
    let file = training(folder.path()).finish();
    let of = |arguments: &[&str]| moved(arguments, &file);
    assert_eq!(of(&[]), (102, 102));
    assert_eq!(of(&["--device", "0"]), (102, 102));
    let none = analyze(&["changes", "--device", "1"], &file);
    assert_eq!(none.status.code(), Some(2), "it has one GPU");
    // Totals count only matching blocks: two of 60 MiB, one of them freed.
    assert_eq!(of(&["--size", "60MiB"]), (60, 60));
    assert_eq!(of(&["--size", "..59MiB"]), (42, 42));
    assert_eq!(of(&["--library", "libtorch_cuda"]), (102, 102));
    assert_eq!(of(&["--library", "libnowhere"]), (0, 0));
    let driver = |library| of(&["--level", "driver", "--library", library]);
    assert_eq!(
        (driver("libc10"), driver("libcublas")),
        ((256, 256), (32, 32))
    );
    // The lines are the script's own; allocations and frees of autograd's thread belong to the current line.
    let of_functions = |part| of(&["--function", part]).0;
    let (module, net) = (of_functions("<module>"), of_functions("Net.forward"));
    assert_eq!((module, net), (12 + 40 - 100, 60 + 60 + 30));
    assert_eq!(of(&["--file", "train.py"]).0, 102);
    assert_eq!(of(&["--file", "conv.py"]), (0, 0));
    let text = stdout(&analyze(&["changes", "--size", "7GiB"], &file));
    assert_eq!(
        text,
        "No memory changed at the tensor level, blocks of 7.00 GiB.\n"
    );
}

#[test]
fn a_filter_that_makes_no_sense_is_refused_with_what_does() {
    let folder = tempdir().expect("a folder");
    let file = training(folder.path()).finish();
    for (arguments, advice) in [
        (["changes", "--at", "end"], "lines --at"),
        (["ledger", "--level", "driver"], "lines --level"),
        (
            ["ledger", "--file", "train.py"],
            "use --file, --function, --library and --size with lines",
        ),
        (
            ["ledger", "--function", "f"],
            "use --file, --function, --library and --size with lines",
        ),
        (
            ["ledger", "--library", "libc10"],
            "use --file, --function, --library and --size with lines",
        ),
        (
            ["ledger", "--size", "1MiB"],
            "use --file, --function, --library and --size with lines",
        ),
    ] {
        let output = analyze(&arguments, &file);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert_eq!(stdout(&output), "");
        assert!(stderr(&output).contains(advice), "{}", stderr(&output));
    }
}

#[test]
fn the_capture_of_a_rank_is_found_by_every_view_of_one() {
    let folder = tempdir().expect("a folder");
    let file = training(folder.path()).finish();
    std::fs::rename(&file, folder.path().join("run.rank3.bin")).expect("renamed");
    let named = folder.path().join("run.bin");
    for view in [
        &["lines"][..],
        &["changes"],
        &["ledger"],
        &["timeline", "--format", "text"],
    ] {
        let of_rank = analyze(&[view, &["--rank", "3"]].concat(), &named);
        assert_eq!(of_rank.status.code(), Some(0), "{}", stderr(&of_rank));
        let itself = analyze(view, &folder.path().join("run.rank3.bin"));
        assert_eq!(stdout(&of_rank), stdout(&itself));
    }
}

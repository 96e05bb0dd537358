//! Allocations and frees of each thread, on captures with known bytes.

use std::path::Path;

use gpumem_capture::{Definition, Event, EventKind, Level, StackId, ThreadId};
use serde_json::{Value, json};
use tempfile::tempdir;

use crate::captures::Captures;
use crate::run::{analyze, json_of, stderr, stdout};
use crate::synthetic::{M, Synthetic};
use crate::training::training;

const FIGURES: [&str; 6] = [
    "allocations",
    "allocated_bytes",
    "frees",
    "freed_bytes",
    "live_blocks",
    "live_bytes",
];

/// The threads of GPU 0 as (name, figures), in order. They add up.
fn threads(arguments: &[&str], file: &Path) -> Vec<(Value, [u64; 6])> {
    let (value, exit) = json_of(
        &[&["lines", "--by", "thread", "--format", "json"], arguments].concat(),
        file,
    );
    assert_eq!(exit, 0, "{value}");
    let figures = |row: &Value| FIGURES.map(|key| row[key].as_u64().expect(key));
    let rows = value[0]["rows"].as_array().expect("rows").iter();
    let rows: Vec<_> = rows
        .map(|row| (row["name"].clone(), figures(row)))
        .collect();
    for (at, whole) in figures(&value[0]["sum"]).into_iter().enumerate() {
        let sum: u64 = rows.iter().map(|(_, figures)| figures[at]).sum();
        assert_eq!(sum, whole, "{}", FIGURES[at]);
    }
    rows
}

/// The main thread allocates 10 and 6 MiB and frees one; a worker allocates 20 MiB, which makes the peak, frees the
/// main thread's other block, and fails to free the 20 MiB.
fn two_threads(folder: &Path) -> Synthetic {
    let mut capture = Synthetic::new(folder);
    let none = StackId::NONE;
    for (thread, name) in [(0, "python"), (1, "pin_memory")] {
        capture.define(&Definition::Thread {
            id: ThreadId(std::process::id() + thread),
            name: name.into(),
        });
    }
    capture.alloc(Level::DRIVER, 0x1000, 10 * M, none, none);
    capture.alloc(Level::DRIVER, 0x2000, 6 * M, none, none);
    capture.freed(
        Level::DRIVER,
        0x2000,
        6 * M,
        gpumem_capture::EventFlags::NONE,
    );
    capture.thread = 1;
    capture.alloc(Level::DRIVER, 0x3000, 20 * M, none, none);
    capture.freed(
        Level::DRIVER,
        0x1000,
        10 * M,
        gpumem_capture::EventFlags::NONE,
    );
    let free = capture.freed(
        Level::DRIVER,
        0x3000,
        20 * M,
        gpumem_capture::EventFlags::NONE,
    );
    capture.event(Event {
        kind: EventKind::CANCEL,
        level: Level::DRIVER,
        ptr: 0x3000,
        bytes: 20 * M,
        aux: free.0,
        ..Event::default()
    });
    capture
}

#[test]
fn blocks_belong_to_who_allocated_them_and_frees_to_who_freed() {
    let folder = tempdir().expect("a folder");
    let file = two_threads(folder.path()).finish();
    let worker = |live| (json!("pin_memory"), [1, 20 * M, 1, 10 * M, 1, live * M]);
    let main = |blocks, live| (json!("python"), [2, 16 * M, 1, 6 * M, blocks, live * M]);
    assert_eq!(threads(&[], &file), [worker(20), main(1, 10)]);
    assert_eq!(threads(&["--at", "end"], &file), [worker(20), main(0, 0)]);
    let small = threads(&["--size", "..6MiB"], &file);
    assert_eq!(small, [(json!("python"), [1, 6 * M, 1, 6 * M, 0, 0])]);

    let text = stdout(&analyze(&["lines", "--by", "thread"], &file));
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    let id = (std::process::id() + 1).to_string();
    let row = [
        "pin_memory",
        &id,
        "1",
        "20.0",
        "MiB",
        "1",
        "10.0",
        "MiB",
        "1",
        "20.0",
        "MiB",
    ];
    assert!(
        words.windows(row.len()).any(|window| window == row),
        "{text}"
    );
    let sum = "together 3 36.0 MiB 2 16.0 MiB 2 30.0 MiB";
    assert!(words.join(" ").ends_with(sum), "{text}");
}

#[test]
fn the_sums_are_the_levels_figures() {
    let folder = tempdir().expect("a folder");
    let captures = [
        ("training", training as fn(&Path) -> Synthetic),
        ("threads", two_threads),
    ];
    for (name, make) in captures {
        let folder = folder.path().join(name);
        std::fs::create_dir(&folder).expect("a folder");
        let file = make(&folder).finish();
        let (summary, _) = json_of(&["report", "--all", "--format", "json"], &file);
        for level in ["tensor", "driver", "host"] {
            let figures = &summary["devices"][0][level];
            if figures["allocations"] == 0 {
                continue;
            }
            for (at, live) in [("peak", "peak_bytes"), ("end", "live_bytes")] {
                let rows = threads(&["--level", level, "--at", at], &file);
                let sum = |at: usize| rows.iter().map(|(_, figures)| figures[at]).sum::<u64>();
                assert_eq!(figures["allocations"], sum(0), "{name} {level}");
                let sizes = [
                    "lines", "--by", "size", "--level", level, "--at", at, "--format", "json",
                ];
                let (sizes, _) = json_of(&sizes, &file);
                assert_eq!(sizes[0]["allocated_bytes"], sum(1), "{name} {level}");
                assert_eq!(figures["frees"], sum(2), "{name} {level}");
                assert_eq!(figures[live], sum(5), "{name} {level} {at}");
            }
        }
    }
}

#[test]
fn a_capture_without_blocks_of_the_level_says_so() {
    let folder = tempdir().expect("a folder");
    let file = two_threads(folder.path()).finish();
    let output = analyze(&["lines", "--by", "thread", "--level", "host"], &file);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(
        stdout(&output),
        "No memory was allocated at the host level.\n"
    );
}

/// Bytes of the folded stacks that a thread holds.
fn folded_of(arguments: &[&str], file: &Path) -> u64 {
    let out = analyze(
        &[&["flamegraph", "--format", "folded", "--thread"], arguments].concat(),
        file,
    );
    assert_eq!(out.status.code(), Some(0), "{}", stderr(&out));
    let bytes = |line: &str| {
        let (_, bytes) = line.rsplit_once(' ').expect("bytes");
        bytes.parse::<u64>().expect("a number")
    };
    stdout(&out).lines().map(bytes).sum()
}

#[test]
fn a_flamegraph_of_a_thread_has_what_the_thread_allocated() {
    let folder = tempdir().expect("a folder");
    let file = two_threads(folder.path()).finish();
    let worker = (std::process::id() + 1).to_string();
    for called in ["pin_memory", worker.as_str()] {
        assert_eq!(folded_of(&[called], &file), 20 * M);
        assert_eq!(folded_of(&[called, "--at", "end"], &file), 20 * M);
        assert_eq!(folded_of(&[called, "--of", "allocated"], &file), 20 * M);
    }
    // At the peak the main thread has one of its two blocks, and at the end none.
    assert_eq!(folded_of(&["python"], &file), 10 * M);
    assert_eq!(folded_of(&["python", "--at", "end"], &file), 0);
    assert_eq!(folded_of(&["python", "--of", "allocated"], &file), 16 * M);
    // Up to each event, until there are no more.
    let events = (1..).map(|event: u64| event.to_string());
    let exists = |event: &String| analyze(&["lines", "--at", event], &file).status.success();
    let up_to = |event: String| folded_of(&["python", "--of", "allocated", "--at", &event], &file);
    let sums: Vec<u64> = events.take_while(exists).map(up_to).collect();
    assert!(sums.is_sorted(), "{sums:?}");
    assert!(sums.contains(&(10 * M)), "{sums:?}");
    assert_eq!(sums.last(), Some(&(16 * M)), "{sums:?}");
    for (arguments, said) in [
        (
            &["--thread", "nobody"][..],
            "--thread nobody: the capture has no such thread",
        ),
        (
            &["--thread", "python", "--of", "leaked"],
            "--of live and --of allocated",
        ),
    ] {
        let out = analyze(
            &[&["flamegraph", "--format", "folded"], arguments].concat(),
            &file,
        );
        assert_eq!(out.status.code(), Some(2));
        assert!(stderr(&out).contains(said), "{}", stderr(&out));
    }
}

/// Most threads of programs have no name.
#[test]
fn a_thread_without_a_name_has_an_id() {
    let captures = Captures::copied(&["demo"]);
    let file = captures.path("demo");
    let (all, _) = json_of(&["lines", "--by", "thread", "--format", "json"], &file);
    let all = all[0]["rows"].as_array().expect("rows");
    assert_eq!(all.len(), 2);
    for row in all {
        let id = row["thread"].to_string();
        for (of, key) in [("live", "live_bytes"), ("allocated", "allocated_bytes")] {
            let line = ["lines", "--of", of, "--thread", &id, "--format", "json"];
            let (lines, exit) = json_of(&line, &file);
            let bytes = |line: &Value| line["bytes"].as_u64().expect("bytes");
            let sum: u64 = lines.as_array().expect("rows").iter().map(bytes).sum();
            assert_eq!((sum, exit), (row[key].as_u64().expect(key), 0));
        }
    }
}

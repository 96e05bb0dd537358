//! Each total that a view prints is the sum of its rows, in JSON to the byte, on captures of real programs and of
//! damaged files.
//!
//! These tests find a row that is left out of a table or of its total, and a total that is not made of its rows.

mod pages;
mod parts;
mod text;

use std::fmt::Display;

use serde_json::Value;

use crate::captures::{Captures, none};
use crate::run::{found, run, stderr};
use crate::value::{int, list, sum};
use parts::*;

/// A training, one of PyTorch 1.12, a failure, a fragmented pool, two GPUs, and damaged files.
const CAPTURES: [&str; 8] = [
    "demo",
    "trained/old",
    "oom",
    "pieces",
    "stray",
    "torch-return",
    "lost",
    "wrapped",
];

/// What was compared: a description, the total, the sum of its parts.
#[derive(Default)]
struct Sums(Vec<(String, i64, i64)>);

impl Sums {
    fn add(&mut self, what: impl Display, total: i64, parts: i64) {
        self.0.push((what.to_string(), total, parts));
    }
}

/// The JSON of a command line on a capture, below its head. `FILE` stands for the capture.
fn json(command: &str, captures: &Captures, name: &str) -> Value {
    let output = run(words(&format!("{command} --format json"), captures, name));
    let code = output.status.code();
    assert!(
        matches!(code, Some(0 | 3)),
        "{name}: {command}: {code:?}: {}",
        stderr(&output)
    );
    found(&output.stdout)
}

fn words(command: &str, captures: &Captures, name: &str) -> Vec<std::ffi::OsString> {
    let file = captures.path(name);
    let word = |word: &str| match word {
        "FILE" => file.clone().into(),
        word => word.into(),
    };
    command.split(' ').map(word).collect()
}

type Parts = fn(&Value, &Value, &mut Sums);

fn holds(command: &str, parts: Parts) {
    let captures = Captures::copied(&CAPTURES);
    let mut faults = Vec::new();
    for name in CAPTURES {
        let summary = json("report --all FILE", &captures, name);
        let mut sums = Sums::default();
        parts(&json(command, &captures, name), &summary, &mut sums);
        let is_empty = match command {
            "oom FILE" => name == "oom" && sums.0.len() != 4,
            "report --hints FILE" => false,
            _ => ["demo", "trained/old"].contains(&name) && sums.0.is_empty(),
        };
        if is_empty {
            faults.push(format!(
                "{command}: {name}: {} sums are compared",
                sums.0.len()
            ));
        }
        for (what, total, parts) in sums.0.iter().filter(|(_, total, parts)| total != parts) {
            faults.push(format!(
                "{command}: {name}: {what}: {total}, but the rows sum to {parts}"
            ));
        }
    }
    none(&faults);
}

macro_rules! views {
    ($($name:ident: $command:literal, $parts:expr;)*) => {
        $(#[test]
        fn $name() {
            holds($command, $parts);
        })*
    };
}

views! {
    lines: "lines --level tensor FILE", |rows, all, sums| of_level(rows, all, "tensor", "peak", sums);
    lines_at_the_end: "lines --level tensor --at end FILE", |rows, all, sums| of_level(rows, all, "tensor", "live", sums);
    lines_of_the_driver: "lines --level driver FILE", |rows, all, sums| of_level(rows, all, "driver", "peak", sums);
    lines_of_pinned_memory: "lines --level host FILE", |rows, all, sums| of_level(rows, all, "host", "peak", sums);
    modules: "lines --level tensor --by module FILE", |rows, all, sums| of_level(rows, all, "tensor", "peak", sums);
    functions: "lines --level tensor --by function FILE", |rows, all, sums| of_level(rows, all, "tensor", "peak", sums);
    callers: "lines --level tensor --by caller FILE", |rows, all, sums| of_level(rows, all, "tensor", "peak", sums);
    files: "lines --level tensor --by file --at end FILE", |rows, all, sums| of_level(rows, all, "tensor", "live", sums);
    libraries: "lines --level driver --by library FILE", |rows, all, sums| of_level(rows, all, "driver", "peak", sums);
    phases: "lines --level tensor --by phase FILE", |rows, all, sums| of_level(rows, all, "tensor", "peak", sums);
    categories: "lines --level tensor --by category FILE", |rows, all, sums| of_level(rows, all, "tensor", "peak", sums);
    ledger: "ledger FILE", of_ledgers;
    ledger_by_owner: "ledger --by owner FILE", of_ledgers;
    ledger_by_line: "ledger --by line --at end FILE", of_ledgers;
    tree: "tree --level tensor FILE", of_tree;
    tree_by_module: "tree --level tensor --by module FILE", of_tree;
    leaks: "leaks FILE", |leaks, _, sums| sums.add("all", int(&leaks["bytes"]), sum(&leaks["rows"], "bytes"));
    temporary: "lines --of temporary --within 4 FILE", of_temporary;
    sizes: "lines --by size --level tensor FILE", of_sizes;
    threads: "lines --by thread --level tensor FILE", of_threads;
    fragmentation: "ledger --pool FILE", of_pools;
    diff: "diff --level tensor --at peak --to end FILE FILE", of_diff;
    changes: "changes --level tensor FILE", of_changes;
    timeline: "timeline FILE", of_timeline;
    hints: "report --hints FILE", of_hints;
    oom: "oom FILE", of_failures;
}

/// In a training, tensors are at their peak when the process is.
#[test]
fn the_ledger_of_a_training_has_the_levels_figures() {
    for name in ["demo", "trained/old", "torch-return"] {
        let captures = Captures::copied(&[name]);
        let summary = json("report --all FILE", &captures, name);
        let (device, ledger) = (
            &summary["devices"][0],
            &json("ledger FILE", &captures, name)[0],
        );
        let row = |kind: &str| {
            let row = list(&ledger["rows"]).iter().find(|row| row["kind"] == kind);
            int(&row.expect("a row")["bytes"])
        };
        assert_eq!(
            row("tensors"),
            int(&device["tensor"]["peak_bytes"]),
            "{name}"
        );
        assert_eq!(
            ledger["driver_peak_bytes"], device["driver"]["peak_bytes"],
            "{name}"
        );
        assert!(
            row("tensors") + row("cached") <= int(&device["reserved"]["peak_bytes"]),
            "{name}"
        );
        let library = list(&ledger["rows"])
            .iter()
            .find(|row| row["kind"] == "library");
        assert!(
            library.is_some_and(|row| row["name"].to_string().contains("libcublas.so")),
            "{name}"
        );
    }
}

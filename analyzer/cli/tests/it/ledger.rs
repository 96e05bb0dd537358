//! The ledger on the physical level, with NVML's readings.

mod readings;
mod streams;

use std::path::Path;

use gpumem_capture::{DeviceOrdinal, Event, EventFlags, EventKind, Level, ProcessKey, StackId};
use serde_json::{Value, json};
use tempfile::tempdir;

use crate::golden::{golden, masked};
use crate::run::{analyze, json_of, stdout};
use crate::synthetic::{M, Synthetic};

const NONE: EventFlags = EventFlags::NONE;
const POOL: EventFlags = EventFlags::STREAM_ORDERED;
const GRAPH: EventFlags = EventFlags::GRAPH;
const CONTEXT: EventFlags = EventFlags::CONTEXT;
const MODULE: EventFlags = EventFlags::MODULE;
/// Return addresses in the modules of [`Synthetic`].
pub const C10: u64 = 0x20_0100;
const TORCH: u64 = 0x30_0100;
pub const CUBLAS: u64 = 0x40_0100;
const CUDART: u64 = 0x50_0100;
const PYTHON: u64 = 0x10_0100;

/// The ledgers; each must add up.
fn ledgers(arguments: &[&str], file: &Path) -> Vec<Value> {
    let arguments = [&["ledger", "--format", "json"], arguments].concat();
    let (value, exit) = json_of(&arguments, file);
    assert_eq!(exit, 0);
    let ledgers = value.as_array().expect("an array").clone();
    for ledger in &ledgers {
        let rows = ledger["rows"].as_array().expect("rows");
        let sum: i64 = rows
            .iter()
            .map(|row| row["bytes"].as_i64().expect("bytes"))
            .sum();
        assert_eq!(Some(sum), ledger["bytes"].as_i64(), "{ledger}");
    }
    ledgers
}

pub fn ledger(arguments: &[&str], file: &Path) -> Value {
    ledgers(arguments, file).remove(0)
}

/// The rows: kind, name, MiB.
fn rows(ledger: &Value) -> Vec<(String, String, i64)> {
    let rows = ledger["rows"].as_array().expect("rows");
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    rows.iter()
        .map(|row| {
            let bytes = row["bytes"].as_i64().expect("bytes");
            (text(&row["kind"]), text(&row["name"]), bytes / M as i64)
        })
        .collect()
}

/// MiB of all rows of a kind.
pub fn of_kind(ledger: &Value, kind: &str) -> i64 {
    let rows = rows(ledger).into_iter();
    rows.filter(|(of, _, _)| of == kind)
        .map(|(_, _, bytes)| bytes)
        .sum()
}

fn context(capture: &mut Synthetic, caller: u64, py: StackId) {
    capture.event(Event {
        kind: EventKind::CONTEXT,
        ptr: 0xc0,
        aux: caller,
        py_stack: py,
        ..Event::default()
    });
}

fn load(capture: &mut Synthetic, ptr: u64, image: u64, caller: u64, py: StackId) {
    capture.event(Event {
        kind: EventKind::MODULE_LOAD,
        ptr,
        bytes: image,
        aux: caller,
        py_stack: py,
        ..Event::default()
    });
}

/// A training with known figures: a context of 300 MiB and 8 more for its limits; kernels of cuBLAS (found by their
/// image) and of a user's file (found by its loader), 20 and 6 MiB; PyTorch's pool of 64 MiB with 40 of tensors; a
/// cuBLAS workspace of 33 MiB on 34 of pages. NVML reports 5 MiB more.
pub fn known(folder: &Path) -> Synthetic {
    let mut capture = Synthetic::new(folder);
    let module = |line| ("/home/me/run/train.py", "<module>", line, true);
    let first = capture.python(&[module(5)]);
    let data = capture.python(&[module(8)]);
    let matmul = capture.python(&[module(16)]);
    context(&mut capture, TORCH, first);
    capture.resize(0xc0, (0, 300 * M), CONTEXT, first);
    capture.resize(0xc0, (300 * M, 308 * M), CONTEXT, matmul);
    load(&mut capture, 0xe0, 0x40_8000, CUDART, first);
    load(&mut capture, 0xe1, 0x9999_0000, PYTHON, matmul);
    capture.sample(310 * M, 700 * M, 308 * M, NONE);
    capture.card(1110 * M, 100 * M);
    capture.asked(0x1000_0000, 64 * M, NONE, C10, data);
    capture.given(0x1000_0000, 64 * M, NONE);
    capture.tensor(0x1000_0000, 30 * M, 64 * M, data, StackId::NONE);
    capture.asked(0x2000_0000, 33 * M, NONE, CUBLAS, matmul);
    capture.given(0x2000_0000, 34 * M, NONE);
    capture.resize(0xe0, (0, 20 * M), MODULE, matmul);
    capture.resize(0xe1, (0, 6 * M), MODULE, matmul);
    capture.tensor(0x1200_0000, 10 * M, 64 * M, matmul, StackId::NONE);
    let physical = 308 * M + 64 * M + 34 * M + 26 * M;
    capture.sample(physical + 5 * M, 700 * M, physical, NONE);
    capture.card(physical + 5 * M + 800 * M, 100 * M);
    capture
}

#[test]
fn the_parts_sum_to_what_nvml_saw() {
    let folder = tempdir().expect("a folder");
    let file = known(folder.path()).finish();
    let found = ledger(&[], &file);
    let row = |kind: &str, name: &str, bytes| (kind.to_owned(), name.to_owned(), bytes);
    let expected = [
        row("tensors", "tensors live", 40),
        row("cached", "reserved but unallocated", 24),
        row("context", "CUDA context", 308),
        row("library", "libcublas.so.13", 33),
        row("module", "kernels of libcublas.so.13", 20),
        row("module", "kernels of python3.12", 6),
        row("rounding", "rounded up to whole pages", 1),
        row("driver_reserved", "reserved by the driver", 100),
        row("other_processes", "other processes", 700),
        row("unexplained", "unexplained", 5),
    ];
    assert_eq!(rows(&found), expected);
    assert_eq!(found["bytes"], found["nvml_used_bytes"]);
    assert_eq!(found["bytes"], 1237 * M);
    assert_eq!(found["physical_bytes"], 432 * M);
    assert_eq!(found["nvml_process_bytes"], 437 * M);
    assert_eq!(found["other_processes_bytes"], 700 * M);
    assert_eq!(found["driver_reserved_bytes"], 100 * M);
    assert_eq!(found["unexplained_bytes"], 5 * M);
    assert_eq!(found["driver_bytes"], 97 * M);
    let jumps = found["jumps"].as_array().expect("jumps");
    let jump = |jump: &Value| (jump["bytes"].clone(), jump["line"].clone());
    let seen: Vec<_> = jumps.iter().map(jump).collect();
    assert_eq!(seen, [(json!(3 * M), json!(16)), (json!(2 * M), json!(16))]);

    let (summary, _) = json_of(&["report", "--all", "--format", "json"], &file);
    let device = &summary["devices"][0];
    assert_eq!(
        device["physical"],
        json!({"live_bytes": 432 * M, "peak_bytes": 432 * M})
    );
    assert_eq!(device["unexplained_bytes"], 5 * M);
    assert_eq!(
        device["contexts"],
        json!([{"handle": 0xc0, "bytes": 308 * M}])
    );
    assert_eq!(
        summary["reached"],
        json!([{"library": "libcudart.so.13", "way": "dlsym", "hooks": 2}])
    );
    assert_eq!(summary["exact"], true);
    for (name, arguments) in [
        ("known.txt", &["ledger", "--segments"][..]),
        ("known-owner.txt", &["ledger", "--by", "owner"]),
        ("known-line.txt", &["ledger", "--by", "line"]),
        ("known-summary.txt", &["report", "--all"]),
    ] {
        golden(
            name,
            &masked(&stdout(&analyze(arguments, &file)), folder.path()),
        );
    }
}

#[test]
fn every_way_of_putting_rows_together_has_the_same_sum_and_owners() {
    let folder = tempdir().expect("a folder");
    let file = known(folder.path()).finish();
    let by_kind = ledger(&["--by", "kind"], &file);
    let by_owner = ledger(&["--by", "owner"], &file);
    let by_line = ledger(&["--by", "line"], &file);
    assert_eq!(by_kind["bytes"], by_owner["bytes"]);
    assert_eq!(by_kind["bytes"], by_line["bytes"]);
    let owners: Vec<_> = rows(&by_owner)
        .into_iter()
        .filter(|(kind, _, _)| kind == "owner")
        .map(|(_, name, bytes)| (name, bytes))
        .collect();
    let owner = |name: &str, bytes| (name.to_owned(), bytes);
    let expected = [
        owner("libc10_cuda.so", 64),
        owner("libcublas.so.13", 53),
        owner("python3.12", 6),
    ];
    assert_eq!(owners, expected);
    let lines: Vec<_> = rows(&by_line)
        .into_iter()
        .filter(|(kind, _, _)| kind == "line")
        .map(|(_, name, bytes)| (name, bytes))
        .collect();
    let expected = [
        owner("train.py:5", 300),
        owner("train.py:16", 10 + 33 + 26 + 8),
        owner("train.py:8", 30),
    ];
    assert_eq!(lines, expected);
}

#[test]
fn stream_ordered_memory_and_graphs_come_out_right() {
    let folder = tempdir().expect("a folder");
    let mut capture = Synthetic::new(folder.path());
    let line = capture.python(&[("a.py", "f", 1, true)]);
    // PyTorch with cudaMallocAsync: no tensor events, the pool is CUDA's.
    capture.resize(0xb0, (0, 64 * M), POOL, line);
    capture.asked(0x1000_0000, 40 * M, POOL, C10, line);
    capture.asked(0x2000_0000, 10 * M, POOL, CUBLAS, line);
    // A graph's nodes are live, with more memory than they need.
    capture.resize(1, (0, 32 * M), GRAPH, line);
    capture.asked(0x3000_0000, 24 * M, GRAPH, TORCH, line);
    capture.sample(96 * M, 0, 96 * M, NONE);
    capture.card(96 * M, 0);
    let file = capture.finish();
    let found = ledger(&[], &file);
    let row = |kind: &str, name: &str, bytes| (kind.to_owned(), name.to_owned(), bytes);
    let expected = [
        row("tensors", "tensors live", 40),
        row("graph", "CUDA graphs, live", 24),
        row("library", "libcublas.so.13", 10),
        row("pool", "CUDA's pools, reserved but unused", 14),
        row("graph_unused", "CUDA graphs, reserved but unused", 8),
        row("other_processes", "other processes", 0),
        row("unexplained", "unexplained", 0),
    ];
    assert_eq!(rows(&found), expected);
    assert_eq!(found["pool"], Value::Null);
    assert_eq!(found["bytes"], 96 * M);
}

#[test]
fn managed_memory_explains_no_more_than_it_is() {
    for (beyond, managed, unexplained) in [(4, 4, 0), (10, 10, 0), (13, 10, 3), (-2, 0, -2)] {
        let folder = tempdir().expect("a folder");
        let mut capture = Synthetic::new(folder.path());
        capture.asked(0x1000_0000, 20 * M, NONE, PYTHON, StackId::NONE);
        capture.given(0x1000_0000, 20 * M, NONE);
        capture.asked(
            0x5000_0000,
            6 * M,
            EventFlags::MANAGED,
            PYTHON,
            StackId::NONE,
        );
        capture.asked(
            0x6000_0000,
            4 * M,
            EventFlags::MANAGED,
            PYTHON,
            StackId::NONE,
        );
        let process = (20 + beyond) as u64 * M;
        capture.sample(process, 0, 20 * M, NONE);
        capture.card(process, 0);
        let file = capture.finish();
        let found = ledger(&[], &file);
        assert_eq!(of_kind(&found, "managed"), managed);
        assert_eq!(found["unexplained_bytes"], unexplained * M as i64);
        assert_eq!(of_kind(&found, "unexplained"), unexplained);
        assert_eq!(found["managed_bytes"], 10 * M);
        assert_eq!(found["bytes"], process);
    }
}

#[test]
fn a_stray_context_is_named() {
    let folder = tempdir().expect("a folder");
    let mut capture = Synthetic::new(folder.path());
    capture.fact(ProcessKey::RANK, "1");
    capture.device(1);
    let line = capture.python(&[("a.py", "f", 7, true)]);
    for device in [0, 1] {
        let device = DeviceOrdinal(device);
        let event = |kind, bytes, flags| Event {
            kind,
            bytes,
            flags,
            device,
            level: Level::PHYSICAL,
            ptr: 0xc0 + u64::from(device.0),
            py_stack: line,
            ..Event::default()
        };
        capture.event(event(EventKind::CONTEXT, 0, NONE));
        capture.event(event(EventKind::RESIZE, 871 * M, CONTEXT));
        if device.0 == 1 {
            let level = Level::DRIVER;
            capture.event(Event {
                level,
                ..event(EventKind::ALLOC, 2 * M, NONE)
            });
            capture.event(event(EventKind::ALLOC, 2 * M, NONE));
        }
    }
    let file = capture.finish();
    let found = ledgers(&[], &file);
    let name = |ledger: &Value| rows(ledger)[0].clone();
    let stray = "stray CUDA context of rank 1, which uses GPU 1";
    assert_eq!(name(&found[0]), ("context".into(), stray.into(), 871));
    assert_eq!(found[0]["rows"][0]["line"], 7);
    assert_eq!(
        name(&found[1]),
        ("context".into(), "CUDA context".into(), 871)
    );
    let only = ledgers(&["--device", "1"], &file);
    assert_eq!((only.len(), &only[0]["device"]), (1, &json!(1)));
    let none = analyze(&["ledger", "--device", "5"], &file);
    assert_eq!(none.status.code(), Some(2));
}

#[test]
fn a_reservation_that_does_not_fit_takes_exact_away() {
    let folder = tempdir().expect("a folder");
    let mut capture = Synthetic::new(folder.path());
    capture.resize(0xb0, (0, 64 * M), POOL, StackId::NONE);
    capture.resize(0xb0, (60 * M, 70 * M), POOL, StackId::NONE);
    let file = capture.finish();
    let (summary, exit) = json_of(&["report", "--all", "--format", "json"], &file);
    assert_eq!((exit, &summary["exact"]), (3, &json!(false)));
    assert_eq!(
        summary["missing"],
        json!(["GPU 0 physical: 1 reservation change that does not match the recorded size"])
    );
}

#[test]
fn the_owner_is_who_called_or_who_called_the_runtime() {
    let folder = tempdir().expect("a folder");
    let mut capture = Synthetic::new(folder.path());
    let through = capture.native(&[0x60_0100, CUDART, CUBLAS, TORCH, PYTHON]);
    let native = |caller| Event {
        kind: EventKind::ALLOC,
        level: Level::DRIVER,
        bytes: M,
        aux: caller,
        native_stack: through,
        ..Event::default()
    };
    for (index, caller) in [TORCH, CUDART, 0, 0xdead_0000].into_iter().enumerate() {
        let ptr = (index as u64 + 1) << 28;
        capture.event(Event {
            ptr,
            ..native(caller)
        });
    }
    // A library that is unloaded at the end, and another at its address.
    capture.define(&gpumem_capture::Definition::ModuleEnd {
        id: gpumem_capture::ModuleId(3),
    });
    capture.define(&gpumem_capture::Definition::Module {
        id: gpumem_capture::ModuleId(9),
        bias: 0x30_0000,
        start: 0x30_0000,
        end: 0x31_0000,
        path: "/home/me/run/train".into(),
        build_id: Vec::new(),
    });
    capture.event(Event {
        ptr: 0x9000_0000,
        ..native(TORCH)
    });
    let file = capture.finish();
    let found = rows(&ledger(&["--by", "owner"], &file));
    let owner = |name: &str, bytes| ("owner".to_owned(), name.to_owned(), bytes);
    let expected = [
        owner("libcublas.so.13", 3),
        owner("libtorch_cuda.so", 1),
        owner("train", 1),
    ];
    assert_eq!(found, expected);
}

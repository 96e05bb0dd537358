//! Backward, phases, steps and ranges.

mod damaged;

use std::path::Path;

use gpumem_capture::{Event, EventFlags, EventKind, Level, Phase, StackId};
use serde_json::{Value, json};
use tempfile::tempdir;

use crate::golden::{golden, masked};
use crate::run::{analyze, json_of, stderr, stdout};
use crate::synthetic::{M, PyLine, Synthetic};

const TRAIN: &str = "/home/me/run/train.py";
const CONV: &str = "/env/lib/python3.12/site-packages/torch/nn/modules/conv.py";
const ADAM: &str = "/env/lib/python3.12/site-packages/torch/optim/adam.py";
const OPTIMIZER: &str = "/env/lib/python3.12/site-packages/torch/optim/optimizer.py";
const BEGIN: EventKind = EventKind::PHASE_BEGIN;
const END: EventKind = EventKind::PHASE_END;

fn module(line: u32) -> PyLine {
    (TRAIN, "<module>", line, true)
}

/// The stacks of a training.
struct Stacks {
    load: StackId,
    conv: StackId,
    linear: StackId,
    step: StackId,
    /// Runs of nodes, with their MiB.
    nodes: [(StackId, u64); 4],
    workspace: StackId,
    native: StackId,
}

fn stacks(capture: &mut Synthetic) -> Stacks {
    let none = (StackId::NONE, 0);
    let forward = |line| (TRAIN, "Net.forward", line, false);
    let conv = capture.python(&[(CONV, "Conv2d.forward", 560, true), forward(15), module(20)]);
    let linear = capture.python(&[forward(16), module(20)]);
    let hook = capture.python(&[
        (CONV, "helper", 7, false),
        (TRAIN, "Clip.backward", 40, true),
        module(21),
    ]);
    let convolution = capture.backward(conv, none, false, "ConvolutionBackward0");
    let nodes = [
        (convolution, 30),
        (capture.backward(conv, none, true, "ReluBackward0"), 2),
        (
            capture.backward(convolution, none, false, "MulBackward0"),
            3,
        ),
        (
            capture.backward(linear, (hook, 2), false, "ClipBackward"),
            4,
        ),
    ];
    Stacks {
        load: capture.python(&[module(5)]),
        step: capture.python(&[
            (ADAM, "Adam.step", 100, false),
            (OPTIMIZER, "wrapper", 200, true),
            module(22),
        ]),
        workspace: capture.backward(linear, none, false, "AddmmBackward0"),
        native: capture.native(&[0x60_0100, 0x20_0100, 0x30_0200, 0x10_2200, 0x10_0010]),
        conv,
        linear,
        nodes,
    }
}

fn tensor(capture: &mut Synthetic, ptr: u64, mib: u64, flags: EventFlags, py_stack: StackId) {
    capture.event(Event {
        kind: EventKind::ALLOC,
        level: Level::TENSOR,
        ptr: 0x1000_0000 + ptr * M,
        bytes: mib * M,
        aux: 256 * M,
        flags,
        py_stack,
        ..Event::default()
    });
}

fn free(capture: &mut Synthetic, ptr: u64, mib: u64) {
    let ptr = 0x1000_0000 + ptr * M;
    capture.free_tensor(ptr, mib * M, 256 * M, StackId::NONE);
}

/// The forward of a step, and its backward up to its peak: 60 MiB of train.py:15 and a workspace of 32 at train.py:16.
/// The nodes have 30 MiB for train.py:15, 2 whose line is lost, 3 made by a node, 4 in the user's own code, and a
/// workspace of 8.
fn to_the_peak(capture: &mut Synthetic, stacks: &Stacks) {
    capture.push_range(1, "step");
    capture.push_range(2, "forward; 1");
    tensor(capture, 20, 60, EventFlags::NONE, stacks.conv);
    tensor(capture, 80, 32, EventFlags::WORKSPACE, stacks.linear);
    capture.mark(EventKind::RANGE_END, 0);
    capture.mark(BEGIN, Phase::BACKWARD.0);
    capture.thread = 1;
    let mut at = 112;
    for (stack, mib) in stacks.nodes {
        tensor(capture, at, mib, EventFlags::NONE, stack);
        at += 40;
    }
    tensor(capture, 12, 8, EventFlags::WORKSPACE, stacks.workspace);
    capture.thread = 0;
}

/// Two steps of a training with 12 MiB of a model and 24 of an optimizer's state. Its peak is in the backward of the
/// second one: 175 MiB.
pub fn two_steps(folder: &Path) -> Synthetic {
    let mut capture = Synthetic::new(folder);
    let stacks = stacks(&mut capture);
    let native = stacks.native;
    capture.alloc(Level::DRIVER, 0x1000_0000, 256 * M, stacks.load, native);
    tensor(&mut capture, 0, 12, EventFlags::NONE, stacks.load);
    for step in 1..=2 {
        capture.mark(BEGIN, Phase::ZERO_GRAD.0);
        if step == 2 {
            free(&mut capture, 112, 30);
        }
        capture.mark(END, Phase::ZERO_GRAD.0);
        to_the_peak(&mut capture, &stacks);
        for (ptr, mib) in [(20, 60), (80, 32), (152, 2), (192, 3), (232, 4), (12, 8)] {
            free(&mut capture, ptr, mib);
        }
        capture.mark(END, Phase::BACKWARD.0);
        capture.mark(EventKind::RANGE_END, 0);
        capture.mark(BEGIN, Phase::OPTIMIZER.0);
        if step == 1 {
            tensor(&mut capture, 20 + 200, 24, EventFlags::NONE, stacks.step);
        }
        capture.mark(END, Phase::OPTIMIZER.0);
        capture.mark(EventKind::STEP, step);
    }
    capture
}

/// The parts of lines as (place, phase, node, MiB), the largest first, those of a workspace marked.
fn rows(value: &Value) -> Vec<(String, String, String, u64)> {
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let mut all = Vec::new();
    for row in value.as_array().expect("an array") {
        let file = row["file"]
            .as_str()
            .map_or("-", |file| file.rsplit('/').next().expect("a name"));
        let itself = vec![row.clone()];
        for part in row["parts"].as_array().unwrap_or(&itself) {
            let workspace = match part["workspace"].as_bool() {
                Some(true) => " W",
                _ => "",
            };
            let place = format!("{file}:{}{workspace}", row["line"]);
            let bytes = part["bytes"].as_u64().expect("bytes");
            all.push((place, text(&part["phase"]), text(&part["node"]), bytes / M));
        }
    }
    all.sort_by_key(|(.., mib)| std::cmp::Reverse(*mib));
    all
}

fn lines(arguments: &[&str], file: &Path) -> Vec<(String, String, String, u64)> {
    let (value, exit) = json_of(&[&["lines", "--format", "json"], arguments].concat(), file);
    assert_eq!(exit, 0, "{value}");
    rows(&value)
}

fn row(place: &str, phase: &str, node: &str, mib: u64) -> (String, String, String, u64) {
    (place.into(), phase.into(), node.into(), mib)
}

#[test]
fn each_line_has_its_phase_and_backward_is_charged_to_the_forward_line() {
    let folder = tempdir().expect("a folder");
    let file = two_steps(folder.path()).finish();
    let all = [
        row("train.py:15", "forward", "-", 60),
        row("train.py:16 W", "forward", "-", 32),
        row("train.py:15", "backward", "ConvolutionBackward0", 30),
        row("train.py:22", "optimizer", "-", 24),
        row("train.py:5", "forward", "-", 12),
        row("train.py:16 W", "backward", "AddmmBackward0", 8),
        row("train.py:40", "backward", "-", 4),
        row("train.py:15", "backward", "MulBackward0", 3),
        row("-:null", "backward", "ReluBackward0", 2),
    ];
    assert_eq!(lines(&[], &file), all);
    for (phase, sum) in [
        ("forward", 104),
        ("backward", 47),
        ("optimizer", 24),
        ("other", 0),
    ] {
        let of_phase: Vec<_> = all.iter().filter(|row| row.1 == phase).cloned().collect();
        assert_eq!(lines(&["--phase", phase], &file), of_phase);
        assert_eq!(of_phase.iter().map(|row| row.3).sum::<u64>(), sum);
    }
    let said = stdout(&analyze(&["lines"], &file));
    golden("phases-lines.txt", &said);
    let said = stdout(&analyze(&["lines", "--phase", "other"], &file));
    assert!(
        said.starts_with(
            "No line of another phase, or an unknown one owns memory of the tensor level"
        ),
        "{said}"
    );
}

#[test]
fn a_step_has_what_it_allocated_and_a_peak_of_its_own() {
    let folder = tempdir().expect("a folder");
    let file = two_steps(folder.path()).finish();
    let sum = |arguments: &[&str]| {
        let rows = lines(arguments, &file);
        rows.iter().map(|row| row.3).sum::<u64>()
    };
    for (step, peak, end) in [("1", 151, 36), ("2", 139, 30), ("3", 0, 0)] {
        assert_eq!(sum(&["--step", step]), peak);
        assert_eq!(sum(&["--step", step, "--at", "end"]), end);
    }
    let of_first = lines(
        &["--step", "1", "--phase", "optimizer", "--at", "end"],
        &file,
    );
    assert_eq!(of_first, [row("train.py:22", "optimizer", "-", 24)]);
    let said = stdout(&analyze(
        &["lines", "--step", "2", "--phase", "backward"],
        &file,
    ));
    let title = "Lines of backward of step 2 (tensor level, at its peak)";
    assert!(said.starts_with(title), "{said}");
    assert!(said.ends_with("Together 47.0 MiB.\n"), "{said}");
    let output = analyze(&["lines", "--step", "4"], &file);
    assert_eq!(
        (output.status.code(), stdout(&output)),
        (Some(1), String::new())
    );
    assert!(stderr(&output).contains("step 4 does not exist, 2 steps ended"));
    assert_eq!(
        analyze(&["lines", "--step", "0"], &file).status.code(),
        Some(2)
    );
}

#[test]
fn the_peak_and_failures_say_their_step_phase_and_range() {
    let folder = tempdir().expect("a folder");
    let mut capture = two_steps(folder.path());
    let matmul = capture.python(&[module(30)]);
    capture.event(Event {
        kind: EventKind::OUT_OF_MEMORY,
        bytes: 20 << 30,
        py_stack: matmul,
        ..Event::default()
    });
    let file = capture.finish();
    let (summary, _) = json_of(&["report", "--all", "--format", "json"], &file);
    assert_eq!(summary["steps"], 2);
    let peak = &summary["devices"][0]["peak"];
    let said = ["step", "phase", "range"].map(|key| peak[key].clone());
    assert_eq!(said, [json!(2), json!("backward"), json!("step")]);
    let (ledger, _) = json_of(&["ledger", "--format", "json"], &file);
    let ledger = &ledger[0];
    assert_eq!(ledger["seq"], peak["seq"]);
    assert_eq!(
        (&ledger["step"], &ledger["phase"]),
        (&json!(2), &json!("backward"))
    );
    let text = masked(&stdout(&analyze(&[], &file)), folder.path());
    golden("phases-report.txt", &text);
    golden(
        "phases-summary.txt",
        &masked(
            &stdout(&analyze(&["report", "--all"], &file)),
            folder.path(),
        ),
    );
    let (end, _) = json_of(&["ledger", "--at", "end", "--format", "json"], &file);
    assert_eq!(end[0]["step"], Value::Null);
}

#[test]
fn workspaces_are_a_part_of_the_tensors_and_of_their_line() {
    let folder = tempdir().expect("a folder");
    let file = two_steps(folder.path()).finish();
    let (ledgers, exit) = json_of(&["ledger", "--format", "json"], &file);
    assert_eq!(exit, 0);
    let workspaces = &ledgers[0]["workspaces"];
    let figures = ["bytes", "blocks", "line"].map(|key| workspaces[key].as_u64());
    assert_eq!(figures, [Some(40 * M), Some(2), Some(16)]);
    let tensors = ledgers[0]["rows"].as_array().expect("rows")[0].clone();
    assert_eq!(
        (&tensors["kind"], &tensors["bytes"]),
        (&json!("tensors"), &json!(175 * M))
    );
    let (by_line, _) = json_of(&["ledger", "--by", "line", "--format", "json"], &file);
    let names = by_line[0]["rows"].as_array().expect("rows").iter();
    let names: Vec<&str> = names.filter_map(|row| row["name"].as_str()).collect();
    let of_line = names.iter().filter(|name| name.starts_with("train.py:16"));
    assert_eq!(of_line.collect::<Vec<_>>(), [&"train.py:16"], "{names:?}");
}

#[test]
fn stacks_of_backward_go_on_from_their_forwards() {
    let folder = tempdir().expect("a folder");
    let file = two_steps(folder.path()).finish();
    let folded = stdout(&analyze(&["flamegraph", "--format", "folded"], &file));
    golden("phases-folded.txt", &folded);
    let counts = folded.lines().filter_map(|line| line.rsplit_once(' '));
    let sum: u64 = counts
        .filter_map(|(_, bytes)| bytes.parse::<u64>().ok())
        .sum();
    assert_eq!(sum, 175 * M);
    golden("phases-tree.txt", &stdout(&analyze(&["tree"], &file)));
}

#[test]
fn a_node_on_the_main_thread_changes_the_line_that_waits_for_it() {
    let folder = tempdir().expect("a folder");
    let mut capture = Synthetic::new(folder.path());
    let forward = capture.python(&[module(15)]);
    let waits = capture.python(&[module(21)]);
    let node = capture.backward(forward, (waits, 0), false, "CopyBackwards");
    tensor(&mut capture, 0, 1, EventFlags::NONE, forward);
    tensor(&mut capture, 1, 2, EventFlags::NONE, node);
    let file = capture.finish();
    let (changes, exit) = json_of(&["changes", "--format", "json"], &file);
    let changes = changes.as_array().expect("an array").iter();
    let at: Vec<_> = changes.map(|change| change["line"].as_u64()).collect();
    assert_eq!((at, exit), (vec![Some(15), Some(21)], 0));
    let owners = [
        row("train.py:15", "backward", "CopyBackwards", 2),
        row("train.py:15", "-", "-", 1),
    ];
    assert_eq!(lines(&[], &file), owners, "nothing says that this trains");
}

#[test]
fn what_no_rule_tells_has_no_phase() {
    let folder = tempdir().expect("a folder");
    let mut capture = Synthetic::new(folder.path());
    let line = capture.python(&[module(3)]);
    capture.mark(BEGIN, 99);
    tensor(&mut capture, 0, 1, EventFlags::NONE, line);
    capture.mark(BEGIN, Phase::BACKWARD.0);
    capture.thread = 1;
    tensor(&mut capture, 1, 2, EventFlags::NONE, StackId::NONE);
    tensor(&mut capture, 3, 4, EventFlags::NONE, line);
    let file = capture.finish();
    let expected = [
        row("train.py:3", "forward", "-", 4),
        row("-:null", "-", "-", 2),
        row("train.py:3", "-", "-", 1),
    ];
    assert_eq!(lines(&[], &file), expected);
    assert_eq!(lines(&["--phase", "other"], &file), expected[1..]);
}

#[test]
fn marks_alone_are_no_memory() {
    let folder = tempdir().expect("a folder");
    let mut capture = Synthetic::new(folder.path());
    for (kind, aux) in [
        (BEGIN, 1),
        (END, 1),
        (EventKind::STEP, 1),
        (EventKind::RANGE_END, 0),
    ] {
        capture.event(Event {
            kind,
            aux,
            ..Event::default()
        });
    }
    let file = capture.finish();
    let (summary, exit) = json_of(&["report", "--all", "--format", "json"], &file);
    assert_eq!((&summary["steps"], exit), (&json!(1), 0));
    assert_eq!(summary["calls"], json!([]));
    assert_eq!(summary["devices"][0]["peak"], Value::Null);
    let text = stdout(&analyze(&[], &file));
    assert!(
        text.contains("1 step\n") && text.contains("No GPU memory was allocated."),
        "{text}"
    );
}

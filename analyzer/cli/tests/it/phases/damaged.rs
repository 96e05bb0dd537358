//! Captures of trainings that are incomplete or inconsistent.

use std::fs;
use std::process::Command;

use gpumem_capture::Options;

use super::*;

#[test]
fn what_a_capture_lacks_is_no_line() {
    let folder = tempdir().expect("a folder");
    let mut capture = Synthetic::new(folder.path());
    let missing = StackId(7777);
    let forward = capture.python(&[module(15)]);
    let lost = capture.backward(missing, (StackId::NONE, 0), false, "MmBackward0");
    let headless = capture.backward(forward, (missing, 3), false, "ReluBackward0");
    capture.mark(EventKind::RANGE_BEGIN, 55);
    for (ptr, stack) in [(0, missing), (1, lost), (2, headless)] {
        tensor(&mut capture, ptr, ptr + 1, EventFlags::NONE, stack);
    }
    let file = capture.finish();
    let (value, exit) = json_of(&["lines", "--format", "json"], &file);
    let expected = [
        row("train.py:15", "backward", "ReluBackward0", 3),
        row("-:null", "backward", "MmBackward0", 2),
        row("-:null", "-", "-", 1),
    ];
    assert_eq!((rows(&value), exit), (expected.to_vec(), 3));
    let (summary, _) = json_of(&["report", "--all", "--format", "json"], &file);
    assert_eq!(
        summary["missing"],
        json!(["3 stacks are not in the capture: bytes without a line"])
    );
    assert_eq!(summary["devices"][0]["peak"]["range"], Value::Null);
    for command in [
        &["flamegraph", "--format", "folded"][..],
        &["tree", "--native"],
        &[],
    ] {
        assert_eq!(
            analyze(command, &file).status.code(),
            Some(3),
            "{command:?}"
        );
    }
}

#[test]
fn a_damaged_definition_of_a_node_costs_its_lines_only() {
    let folder = tempdir().expect("a folder");
    let file = two_steps(folder.path()).finish();
    let mut bytes = fs::read(&file).expect("the capture");
    let class = b"20ConvolutionBackward0";
    let at = bytes.windows(class.len()).position(|part| part == class);
    bytes[at.expect("the definition")] ^= 0x40;
    fs::write(&file, bytes).expect("the capture");
    let (value, exit) = json_of(&["lines", "--format", "json"], &file);
    assert_eq!(exit, 3);
    let left: Vec<_> = rows(&value)
        .into_iter()
        .filter(|row| row.1 != "forward")
        .collect();
    let expected = [
        row("-:null", "-", "-", 30),
        row("train.py:22", "optimizer", "-", 24),
        row("train.py:16 W", "backward", "AddmmBackward0", 8),
        row("train.py:40", "backward", "-", 4),
        row("-:null", "backward", "MulBackward0", 3),
        row("-:null", "backward", "ReluBackward0", 2),
    ];
    assert_eq!(left, expected);
    assert!(stdout(&analyze(&[], &file)).starts_with("PARTIAL:"));
}

#[test]
fn hostile_chains_and_marks_end() {
    let folder = tempdir().expect("a folder");
    let options = Options::default().ring_slots(1 << 18);
    let mut capture = Synthetic::with_options(folder.path(), &options);
    let none = (StackId::NONE, 0);
    let first = capture.backward(StackId(1), none, false, "A");
    let mut newest = first;
    for _ in 0..20_000 {
        newest = capture.backward(newest, (first, u32::MAX), false, "B");
    }
    let itself = StackId(newest.0 + 1);
    assert_eq!(capture.backward(itself, (itself, 9), false, "C"), itself);
    for index in 0..20_000 {
        capture.mark(BEGIN, index % 5);
        capture.mark(EventKind::RANGE_BEGIN, index);
    }
    capture.mark(EventKind::STEP, u64::MAX);
    tensor(&mut capture, 0, 1, EventFlags::NONE, newest);
    tensor(&mut capture, 1, 2, EventFlags::NONE, itself);
    let file = capture.finish();
    let output = analyze(&["lines"], &file);
    let text = stdout(&output);
    for label in [
        "(backward: C, forward line lost)",
        "(backward: B, forward line lost)",
    ] {
        assert!(text.contains(label), "{text}");
    }
    for command in [
        &["flamegraph", "--format", "folded"][..],
        &["tree"],
        &["report", "--all"],
        &[],
    ] {
        assert_eq!(
            analyze(command, &file).status.code(),
            Some(3),
            "{command:?}"
        );
    }
}

const FOLDER: &str = "GPUMEM_TEST_PHASES_FOLDER";

/// The process of the next test, which dies in the backward of its third step.
#[test]
fn child_that_dies_in_backward() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        let mut capture = two_steps(Path::new(&folder));
        let stacks = stacks(&mut capture);
        free(&mut capture, 112, 30);
        tensor(&mut capture, 252, 3, EventFlags::NONE, stacks.load);
        to_the_peak(&mut capture, &stacks);
        std::process::abort();
    }
}

#[test]
fn a_phase_that_never_ends_is_the_killed_ones_last() {
    let folder = tempdir().expect("a folder");
    let child = Command::new(std::env::current_exe().expect("path of the test"))
        .args([
            "--exact",
            "phases::damaged::child_that_dies_in_backward",
            "--test-threads",
            "1",
        ])
        .env(FOLDER, folder.path())
        .output()
        .expect("the child starts");
    assert!(!child.status.success());
    let file = folder.path().join("report.bin");
    let (summary, exit) = json_of(&["report", "--all", "--format", "json"], &file);
    assert_eq!((&summary["process"]["ending"], exit), (&json!("killed"), 0));
    assert_eq!(summary["steps"], 2);
    let peak = &summary["devices"][0]["peak"];
    assert_eq!(
        (&peak["step"], &peak["phase"]),
        (&json!(3), &json!("backward"))
    );
    let of_third = lines(&["--step", "3", "--phase", "backward"], &file);
    assert_eq!(of_third.iter().map(|row| row.3).sum::<u64>(), 47);
}

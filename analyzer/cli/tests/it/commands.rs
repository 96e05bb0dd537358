//! The commands on an intact capture.

use std::path::Path;
use std::process::Stdio;

use gpumem_capture::{DeviceOrdinal, Event, EventKind, Level, StackId};
use serde_json::{Value, json};
use tempfile::tempdir;

use crate::golden::{golden, masked};
use crate::run::{analyze, json_of, program, stderr, stdout};
use crate::synthetic::{M, Synthetic};
use crate::training::training;

fn complete(arguments: &[&str], file: &Path) -> String {
    let output = analyze(arguments, file);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}{}",
        stdout(&output),
        stderr(&output)
    );
    assert_eq!(stderr(&output), "");
    stdout(&output)
}

#[test]
fn the_report_says_what_ran_what_held_memory_and_what_changed() {
    let folder = tempdir().expect("a folder");
    let file = training(folder.path()).finish();
    let text = complete(&[], &file);
    golden("report.txt", &masked(&text, folder.path()));
    let svg = std::fs::read(folder.path().join("report.svg")).expect("the flamegraph");
    golden("flamegraph.svg", &String::from_utf8(svg).expect("UTF-8"));
}

#[test]
fn each_view_alone() {
    let folder = tempdir().expect("a folder");
    let file = training(folder.path()).finish();
    for (name, arguments) in [
        ("summary.txt", &["report", "--all"][..]),
        ("lines.txt", &["lines"]),
        (
            "lines-driver-end.txt",
            &["lines", "--level", "driver", "--at", "end"],
        ),
        ("changes.txt", &["changes"]),
        ("changes.json", &["changes", "--format", "json"]),
        ("ledger.txt", &["ledger"]),
        ("ledger.json", &["ledger", "--format", "json"]),
        (
            "folded.txt",
            &["flamegraph", "--native", "--format", "folded"],
        ),
        ("folded-python.txt", &["flamegraph", "--format", "folded"]),
        ("check.txt", &["check"]),
        ("oom.txt", &["oom"]),
        ("hints.txt", &["report", "--hints"]),
    ] {
        golden(name, &masked(&complete(arguments, &file), folder.path()));
    }
}

#[test]
fn two_moments_beside_each_other_and_the_source_with_its_bytes() {
    let folder = tempdir().expect("a folder");
    let file = training(folder.path()).finish();
    let named = file.to_str().expect("plain path");
    let text = complete(&["diff", "--to", "end", named], &file);
    golden("diff.txt", &masked(&text, folder.path()));

    let folder = tempdir().expect("a folder");
    let script = "import torch\n\nx = torch.ones(3)\ny = [x + 1]\ny.append(x * 2)\n";
    std::fs::write(folder.path().join("train.py"), script).expect("a script");
    let mut capture = Synthetic::new(folder.path());
    capture.fact("directory", folder.path().to_str().expect("plain path"));
    for (line, bytes) in [(3, M), (4, 2 * M), (5, 4 * M)] {
        let stack = capture.python(&[("train.py", "<module>", line, true)]);
        capture.tensor(u64::from(line) << 32, bytes, 0, stack, StackId::NONE);
    }
    capture.free_tensor(3 << 32, M, 0, StackId::NONE);
    let text = complete(&["lines", "--annotate"], &capture.finish());
    golden("annotated.txt", &masked(&text, folder.path()));
}

#[test]
fn what_grows_from_step_to_step_is_a_hint() {
    let folder = tempdir().expect("a folder");
    let file = crate::leaks::many_steps(folder.path(), 60);
    let text = complete(&["report", "--hints"], &file);
    golden("hints-growing.txt", &masked(&text, folder.path()));
    let (hints, _) = json_of(&["report", "--hints", "--format", "json"], &file);
    let hints = hints.as_array().expect("an array");
    let growing = hints.iter().find(|hint| hint["kind"] == "growing");
    // 2 MiB in each step after the first, and 64 KiB in every fifth.
    assert_eq!(growing.expect("a hint")["bytes"], 59 * 2 * M + 12 * M / 16);
}

#[test]
fn the_summary_is_as_the_contract_says() {
    let folder = tempdir().expect("a folder");
    let file = training(folder.path()).finish();
    let (summary, exit) = json_of(&["report", "--all", "--format", "json"], &file);
    assert_eq!(exit, 0);
    assert_eq!(summary["exact"], true);
    assert_eq!(summary["events"], 15);
    assert_eq!(summary["lost_events"], 0);
    assert_eq!(summary["process"]["pid"], std::process::id());
    assert_eq!(summary["process"]["rank"], 0);
    // Captures from before these facts existed do not have them.
    for unknown in ["local_rank", "node_rank", "coordinates", "job", "restarts"] {
        assert_eq!(summary["process"][unknown], Value::Null, "{unknown}");
    }
    assert_eq!(summary["process"]["python"], "3.12.1");
    let device = &summary["devices"][0];
    assert_eq!(device["ordinal"], 0);
    assert_eq!(device["uuid"], "GPU-01010101-0101-0101-0101-010101010101");
    assert_eq!(device["total_bytes"], 16_u64 << 30);
    let level = |live: u64, peak: u64, allocations: u64, frees: u64| json!({"live_bytes": live * M, "peak_bytes": peak * M, "allocations": allocations, "frees": frees});
    assert_eq!(device["tensor"], level(102, 202, 8, 2));
    assert_eq!(device["driver"], level(288, 288, 2, 0));
    assert_eq!(device["host"], level(8, 8, 1, 0));
    assert_eq!(
        device["reserved"],
        json!({"live_bytes": 256 * M, "peak_bytes": 256 * M})
    );
    assert_eq!(device["unexplained_bytes"], Value::Null);
}

#[test]
fn what_comes_and_goes_on_one_line_is_a_change_too() {
    let folder = tempdir().expect("a folder");
    let mut capture = Synthetic::new(folder.path());
    let keep = capture.python(&[("a.py", "f", 1, true)]);
    let spike = capture.python(&[("a.py", "f", 2, true)]);
    capture.tensor(0x1000, 10 * M, 0, keep, StackId::NONE);
    for bytes in [3 * M, 70 * M, 5 * M] {
        capture.tensor(0x2000, bytes, 0, spike, StackId::NONE);
        capture.free_tensor(0x2000, bytes, 0, spike);
    }
    let file = capture.finish();
    let (changes, exit) = json_of(&["changes", "--format", "json"], &file);
    let figures = |change: &Value| {
        ["line", "change_bytes", "total_bytes", "peak_bytes"].map(|key| change[key].as_u64())
    };
    let changes: Vec<_> = changes
        .as_array()
        .expect("an array")
        .iter()
        .map(figures)
        .collect();
    let expected = [[1, 10 * M, 10 * M, 10 * M], [2, 0, 10 * M, 80 * M]];
    assert_eq!(
        (changes, exit),
        (expected.map(|row| row.map(Some)).to_vec(), 0)
    );
    let report = complete(&[], &file);
    assert!(report.contains("10.0 MiB  80.0 MiB      1"), "{report}");
}

#[test]
fn an_event_that_is_not_there_gives_no_figures() {
    let folder = tempdir().expect("a folder");
    let file = training(folder.path()).finish();
    let output = analyze(&["lines", "--at", "99999"], &file);
    assert_eq!(
        (output.status.code(), stdout(&output).as_str()),
        (Some(1), "")
    );
    let said = stderr(&output);
    assert!(
        said.contains("event 99999 does not exist, the last is 88") && said.lines().count() == 1,
        "{said}"
    );
}

#[test]
fn a_picture_that_cannot_be_written_is_told_in_one_line() {
    let folder = tempdir().expect("a folder");
    let file = training(folder.path()).finish();
    std::fs::create_dir(folder.path().join("report.svg")).expect("a folder in the way");
    let output = analyze(&[], &file);
    assert_eq!(output.status.code(), Some(0));
    assert!(
        stdout(&output).contains("GPU 0 at its peak"),
        "{}",
        stdout(&output)
    );
    let said = stderr(&output);
    assert!(
        said.contains("report.svg") && said.lines().count() == 1,
        "{said}"
    );
    let output = analyze(&["flamegraph"], &file);
    assert_eq!(output.status.code(), Some(1));
    let left: Vec<_> = std::fs::read_dir(folder.path())
        .expect("the folder")
        .collect();
    assert_eq!(left.len(), 2, "no half-written file is left: {left:?}");
}

#[test]
fn two_devices_are_kept_apart_and_each_is_at_its_own_peak() {
    let folder = tempdir().expect("a folder");
    let mut capture = Synthetic::new(folder.path());
    capture.device(1);
    let line = capture.python(&[("a.py", "f", 1, true)]);
    for (kind, device, bytes) in [
        (EventKind::ALLOC, 0, 5 * M),
        (EventKind::FREE, 0, 5 * M),
        (EventKind::ALLOC, 1, 7 * M),
    ] {
        let (ptr, device) = (0x1000, DeviceOrdinal(device));
        capture.event(Event {
            kind,
            device,
            ptr,
            bytes,
            py_stack: line,
            ..Event::default()
        });
    }
    let file = capture.finish();
    let (rows, _) = json_of(&["lines", "--format", "json"], &file);
    let by_device: Vec<_> = rows
        .as_array()
        .expect("an array")
        .iter()
        .map(|row| (row["device"].as_u64(), row["bytes"].as_u64()))
        .collect();
    assert_eq!(by_device, [(Some(1), Some(7 * M)), (Some(0), Some(5 * M))]);
    let folded = complete(&["flamegraph", "--format", "folded"], &file);
    assert_eq!(
        folded,
        format!("GPU 0;f (a.py:1) {}\nGPU 1;f (a.py:1) {}\n", 5 * M, 7 * M)
    );
}

#[test]
fn the_flamegraph_is_the_same_each_time_and_its_widths_sum_to_the_peak() {
    let folder = tempdir().expect("a folder");
    let file = training(folder.path()).finish();
    let folded = complete(&["flamegraph", "--format", "folded"], &file);
    let sum: u64 = folded
        .lines()
        .map(|line| {
            line.rsplit_once(' ')
                .and_then(|(_, bytes)| bytes.parse::<u64>().ok())
                .expect("a count")
        })
        .sum();
    assert_eq!(sum, 202 * M);
    let first = complete(&["flamegraph", "-o", "-"], &file);
    let second = complete(&["flamegraph", "-o", "-"], &file);
    assert!(first == second, "two runs drew different pictures");
    assert!(
        first.contains("all (202 MiB = 211,812,352 bytes, 100 %, "),
        "{first}"
    );
    let (report_one, report_two) = (complete(&[], &file), complete(&[], &file));
    assert_eq!(report_one, report_two);
}

#[test]
fn the_tree_parts_where_calls_part_and_sums_everywhere() {
    fn check(node: &Value) {
        let bytes = |node: &Value| node["bytes"].as_u64().expect("bytes");
        let children = node["children"].as_array().expect("children");
        let below: u64 = children.iter().map(bytes).sum();
        let own = node["own_bytes"].as_u64().expect("own bytes");
        assert_eq!(bytes(node), own + below, "{node}");
        children.iter().for_each(check);
    }
    let folder = tempdir().expect("a folder");
    let file = training(folder.path()).finish();
    for arguments in [
        &["tree", "--format", "json"][..],
        &["tree", "--native", "--format", "json"],
    ] {
        let (root, exit) = json_of(arguments, &file);
        assert_eq!((&root["frame"], exit), (&json!("all"), 0));
        assert_eq!(root["bytes"], 202 * M);
        check(&root);
    }
    golden("tree.txt", &complete(&["tree"], &file));
    golden(
        "tree-native.txt",
        &complete(&["tree", "--native", "--least", "10"], &file),
    );
}

#[test]
fn source_text_is_shown_unless_the_file_changed_since() {
    let folder = tempdir().expect("a folder");
    let script = folder.path().join("train.py");
    std::fs::write(&script, "import torch\nx = torch.ones(3)  # here\n").expect("a script");
    let mut capture = Synthetic::new(folder.path());
    capture.fact("directory", folder.path().to_str().expect("plain path"));
    let line = capture.python(&[("train.py", "<module>", 2, true)]);
    capture.alloc(Level::TENSOR, 0x1000, M, line, StackId::NONE);
    let file = capture.finish();
    let text = complete(&["lines"], &file);
    assert!(text.contains("x = torch.ones(3)  # here"), "{text}");
    let later = std::time::SystemTime::now() + std::time::Duration::from_secs(60);
    let changed = std::fs::File::options()
        .append(true)
        .open(&script)
        .expect("the script");
    changed.set_modified(later).expect("a new time");
    let text = complete(&["lines"], &file);
    assert!(
        !text.contains("torch.ones") && text.contains("train.py:2"),
        "{text}"
    );
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let folder = tempdir().expect("a folder");
    let mut capture = Synthetic::new(folder.path());
    for index in 0..3000 {
        let line = capture.python(&[("a.py", "f", index + 1, true)]);
        capture.tensor(0x1000 * u64::from(index), M, 0, line, StackId::NONE);
    }
    let file = capture.finish();
    let mut child = program()
        .args(["lines", "--format", "json"])
        .arg(&file)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(
        (output.status.code(), stderr(&output).as_str()),
        (Some(0), "")
    );
}

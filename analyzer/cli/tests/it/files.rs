//! Files that are not intact captures.

use std::fs;
use std::path::Path;
use std::process::Command;

use gpumem_capture::{Event, EventFlags, EventKind, Options, StackId};
use serde_json::Value;
use tempfile::tempdir;

use crate::run::{analyze, json_of, stderr, stdout};
use crate::synthetic::{M, Synthetic};
use crate::training::training;

/// The one line on stderr of a command that has no result.
fn refused(arguments: &[&str], file: &Path) -> String {
    let output = analyze(arguments, file);
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    assert_eq!(stdout(&output), "");
    let text = stderr(&output);
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.contains(file.to_str().expect("plain path")), "{text}");
    text
}

#[test]
fn what_is_no_capture_is_refused_in_one_clear_line() {
    let folder = tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    fs::write(at("empty.bin"), "").expect("a file");
    fs::write(at("foreign.bin"), vec![b'x'; 100_000]).expect("a file");
    let whole = fs::read(training(folder.path()).finish()).expect("the capture");
    fs::write(at("short.bin"), &whole[..5000]).expect("a file");
    for (name, what) in [
        ("none.bin", "record one with "),
        ("empty.bin", "is empty"),
        ("foreign.bin", "not a gpumem capture"),
        ("short.bin", "cut off after 5000 bytes"),
        (".", "a folder, not a capture: name the capture in it"),
    ] {
        for arguments in [
            &[][..],
            &["report", "--all"],
            &["lines"],
            &["check"],
            &["changes"],
            &["flamegraph"],
        ] {
            let text = refused(arguments, &at(name));
            assert!(text.contains(what), "{name}: {text}");
        }
    }
}

#[test]
fn no_output_takes_the_place_of_a_capture() {
    let folder = tempdir().expect("a folder");
    let file = training(folder.path()).finish();
    let whole = fs::read(&file).expect("the capture");
    let path = file.to_str().expect("plain path");
    for arguments in [
        &["html", "-o", path][..],
        &["flamegraph", "-o", path],
        &["timeline", "-o", path],
        &["export", "csv", "-o", path],
        &["live", "--metrics", "--once", "-o", path],
    ] {
        let text = refused(arguments, &file);
        assert!(
            text.contains("it is a capture: name another file"),
            "{text}"
        );
        assert_eq!(fs::read(&file).expect("the capture"), whole);
    }
}

#[test]
fn a_damaged_capture_gives_a_labelled_partial_result() {
    let folder = tempdir().expect("a folder");
    let file = training(folder.path()).finish();
    let mut bytes = fs::read(&file).expect("the capture");
    // Changes a byte of the pointer of a tensor of the model: its record no longer matches its
    // commit word.
    let needle = (0x1000_0000_u64 + 3 * M).to_le_bytes();
    let at = bytes
        .chunks(8)
        .position(|word| word == needle)
        .expect("the event's pointer")
        * 8;
    bytes[at + 3] ^= 0x40;
    fs::write(&file, bytes).expect("the capture");
    let report = analyze(&[], &file);
    assert_eq!(report.status.code(), Some(3), "{}", stderr(&report));
    assert!(
        stdout(&report).starts_with("PARTIAL:"),
        "{}",
        stdout(&report)
    );
    assert!(stdout(&report).contains("NOT exact"), "{}", stdout(&report));
    assert!(!stdout(&report).contains(" exact:") || stdout(&report).contains("NOT exact:"));
    let (summary, exit) = json_of(&["report", "--all", "--format", "json"], &file);
    assert_eq!((&summary["exact"], exit), (&Value::Bool(false), 3));
    assert_eq!(summary["devices"][0]["tensor"]["allocations"], 7);
    let (check, exit) = json_of(&["check", "--format", "json"], &file);
    assert_eq!((&check["whole"], exit), (&Value::Bool(false), 3));
    assert!(
        check["damage"]
            .as_array()
            .is_some_and(|damage| !damage.is_empty()),
        "{check}"
    );
    assert_eq!(check["counters_agree"], false);
    for command in ["lines", "changes", "ledger"] {
        let output = analyze(&[command], &file);
        assert_eq!(output.status.code(), Some(3), "{command}");
        assert!(
            stdout(&output).starts_with("PARTIAL:"),
            "{command}: {}",
            stdout(&output)
        );
    }
}

#[test]
fn events_that_the_recorder_lost_are_said_with_their_time() {
    let folder = tempdir().expect("a folder");
    let options = Options::default()
        .ring_slots(1024)
        .stall(std::time::Duration::ZERO);
    let mut capture = Synthetic::with_options(folder.path(), &options);
    let line = capture.python(&[("a.py", "f", 1, true)]);
    let mut lost = 0;
    for index in 0..1500_u64 {
        lost += u64::from(!capture.try_tensor(0x1000 * index, M, line));
    }
    assert!(lost > 400, "{lost}");
    let file = capture.finish();
    let (summary, exit) = json_of(&["report", "--all", "--format", "json"], &file);
    assert_eq!((&summary["exact"], exit), (&Value::Bool(false), 3));
    assert_eq!(summary["lost_events"], lost);
    let text = stdout(&analyze(&[], &file));
    assert!(
        text.contains("events lost: the recorder's ring was full, at 00:0"),
        "{text}"
    );
}

#[test]
fn what_does_not_fit_is_never_called_exact() {
    let folder = tempdir().expect("a folder");
    let mut capture = Synthetic::new(folder.path());
    capture.event(Event {
        kind: EventKind::FREE,
        ptr: 0x1000,
        flags: EventFlags::UNKNOWN_POINTER,
        ..Event::default()
    });
    capture.tensor(0x2000, M, 0, StackId(77), StackId::NONE);
    let file = capture.finish();
    let (summary, exit) = json_of(&["report", "--all", "--format", "json"], &file);
    assert_eq!((&summary["exact"], exit), (&Value::Bool(false), 3));
    let missing = summary["missing"].to_string();
    assert!(
        missing.contains("1 free of memory whose allocation was not seen"),
        "{missing}"
    );
    assert!(
        missing.contains("1 stack is not in the capture"),
        "{missing}"
    );
    assert_eq!(
        analyze(&["check"], &file).status.code(),
        Some(0),
        "the file itself is whole"
    );
}

#[test]
fn a_capture_without_events_is_complete() {
    let folder = tempdir().expect("a folder");
    let file = Synthetic::new(folder.path()).finish();
    let output = analyze(&[], &file);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(
        stdout(&output).contains("No GPU memory was allocated."),
        "{}",
        stdout(&output)
    );
    let (lines, exit) = json_of(&["lines", "--format", "json"], &file);
    assert_eq!((lines, exit), (Value::Array(Vec::new()), 0));
    let (changes, exit) = json_of(&["changes", "--format", "json"], &file);
    assert_eq!((changes, exit), (Value::Array(Vec::new()), 0));
    let flamegraph = analyze(&["flamegraph"], &file);
    assert_eq!(flamegraph.status.code(), Some(1));
    assert!(
        stderr(&flamegraph).contains("no memory was live"),
        "{}",
        stderr(&flamegraph)
    );
}

const FOLDER: &str = "GPUMEM_TEST_FOLDER";

/// The process of the next test that dies without a clean exit.
#[test]
fn child_that_dies() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        let _capture = training(Path::new(&folder));
        std::process::abort();
    }
}

#[test]
fn a_killed_process_that_lost_nothing_is_complete() {
    let folder = tempdir().expect("a folder");
    let child = Command::new(std::env::current_exe().expect("path of the test"))
        .args(["--exact", "files::child_that_dies", "--test-threads", "1"])
        .env(FOLDER, folder.path())
        .output()
        .expect("the child starts");
    assert!(!child.status.success());
    let file = folder.path().join("report.bin");
    let output = analyze(&[], &file);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}{}",
        stdout(&output),
        stderr(&output)
    );
    assert!(
        stdout(&output).contains("the process was killed"),
        "{}",
        stdout(&output)
    );
    let (summary, _) = json_of(&["report", "--all", "--format", "json"], &file);
    assert_eq!(summary["process"]["ending"], "killed");
    assert_eq!(summary["exact"], true);
}

#[test]
fn a_running_process_is_said_to_be_running() {
    let folder = tempdir().expect("a folder");
    let capture = training(folder.path());
    let (summary, exit) = json_of(&["report", "--all", "--format", "json"], capture.path());
    assert_eq!(
        (&summary["process"]["ending"], exit),
        (&Value::from("running"), 0)
    );
    assert_eq!(summary["devices"][0]["tensor"]["peak_bytes"], 202 * M);
}

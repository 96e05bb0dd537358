//! `export` on captures with known bytes.

use std::path::Path;

use gpumem_capture::{DeviceOrdinal, Event, EventKind, Level, StackId};
use serde_json::Value;
use tempfile::tempdir;

use crate::golden::{golden, masked};
use crate::run::{analyze, stderr, stdout};
use crate::synthetic::{M, Synthetic};
use crate::training::training;

/// The standard output for a complete capture.
fn exported(arguments: &[&str], file: &Path) -> String {
    let output = analyze(&[&["export"], arguments, &["-o", "-"]].concat(), file);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    stdout(&output)
}

/// The tenth column is a thread's number, which differs from run to run.
fn threads_masked(csv: &str) -> String {
    let main = std::process::id();
    let masked = csv.lines().map(|line| {
        let mut fields: Vec<String> = line.split(',').map(str::to_owned).collect();
        if let Ok(thread) = fields[9].parse::<u32>() {
            fields[9] = format!("MAIN+{}", thread - main);
        }
        fields.join(",") + "\n"
    });
    masked.collect()
}

#[test]
fn text_formats() {
    let folder = tempdir().expect("a folder");
    let file = training(folder.path()).finish();
    let folded = exported(&["folded"], &file);
    golden("folded.txt", &folded);
    golden("export.csv", &threads_masked(&exported(&["csv"], &file)));
    let pid = std::process::id().to_string();
    let prometheus = exported(&["prometheus"], &file).replace(&format!("pid=\"{pid}\""), "pid=PID");
    let is_timed = |line: &&str| line.contains("_timestamp_seconds{");
    let lines = prometheus.lines().filter(|line| !is_timed(line));
    let mut prometheus: String = lines.flat_map(|line| [line, "\n"]).collect();
    // The capture's process is this one, and where it runs is not the same everywhere.
    for (label, variable) in [
        ("pod", "POD_NAME"),
        ("namespace", "POD_NAMESPACE"),
        ("container", "CONTAINER_NAME"),
        ("slurm_job_id", "SLURM_JOB_ID"),
    ] {
        let here = std::env::var(variable).unwrap_or_default();
        prometheus = prometheus.replace(&format!(",{label}=\"{here}\""), "");
    }
    golden("export.prom", &masked(&prometheus, folder.path()));
    let speedscope: Value = serde_json::from_str(&exported(&["speedscope"], &file)).expect("JSON");
    let text = serde_json::to_string_pretty(&speedscope).expect("JSON again");
    golden("export.speedscope.json", &(text + "\n"));
}

#[test]
fn files_stand_beside_the_capture_under_their_usual_endings() {
    let folder = tempdir().expect("a folder");
    let file = training(folder.path()).finish();
    for (format, name) in [
        ("folded", "report.folded"),
        ("speedscope", "report.speedscope.json"),
        ("pprof", "report.pb.gz"),
        ("perfetto", "report.perfetto.json"),
        ("firefox", "report.firefox.json"),
        ("csv", "report.csv"),
        ("prometheus", "report.prom"),
        ("sqlite", "report.sqlite"),
        ("parquet", "report.parquet"),
        ("arrow-stream", "report.arrows"),
    ] {
        let output = analyze(&["export", format], &file);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let path = folder.path().join(name);
        assert!(path.metadata().is_ok_and(|facts| facts.len() > 0), "{name}");
        let said = format!("{}: ", path.display());
        assert!(stdout(&output).starts_with(&said), "{}", stdout(&output));
    }
    let left = std::fs::read_dir(folder.path()).expect("a folder").count();
    assert_eq!(left, 11, "nothing else is left behind");
}

fn perfetto(file: &Path, options: &[&str]) -> Vec<Value> {
    let text = exported(&[&["perfetto"], options].concat(), file);
    let trace: Value = serde_json::from_str(&text).expect("JSON");
    trace["traceEvents"].as_array().expect("a list").clone()
}

/// The events with some letters on the track with this offset from the process id: letter and name.
fn slices(events: &[Value], letters: &str, track: u64) -> Vec<(String, String)> {
    let tid = u64::from(std::process::id()) + track;
    let of = |event: &Value, key: &str| event[key].as_str().unwrap_or_default().to_owned();
    events
        .iter()
        .filter(|event| event["tid"] == tid && letters.contains(&of(event, "ph")))
        .map(|event| (of(event, "ph"), of(event, "name")))
        .collect()
}

#[test]
fn slices_nest_whatever_the_marks_say() {
    let folder = tempdir().expect("a folder");
    let mut capture = Synthetic::new(folder.path());
    let (begin, end) = (EventKind::PHASE_BEGIN, EventKind::PHASE_END);
    capture.mark(begin, 2);
    capture.push_range(7, "layer");
    capture.mark(begin, 1);
    // The end of the inner one is lost; another end matches none.
    capture.mark(end, 2);
    capture.mark(end, 3);
    capture.mark(EventKind::RANGE_END, 0);
    capture.mark(EventKind::RANGE_END, 0);
    capture.mark(EventKind::STEP, 1);
    // This one has no end.
    capture.mark(begin, 1);
    let events = perfetto(&capture.finish(), &[]);
    let pairs = |slices: Vec<(String, String)>| {
        let text: Vec<String> = slices
            .into_iter()
            .map(|(letter, name)| format!("{letter} {name}"))
            .collect();
        text.join(", ")
    };
    assert_eq!(
        pairs(slices(&events, "BE", 1_000_000_000)),
        "B optimizer, B backward, E backward, E optimizer, B backward, E backward"
    );
    assert_eq!(pairs(slices(&events, "BE", 0)), "B layer, E layer");
    let steps: Vec<(&str, &Value)> = events
        .iter()
        .filter(|event| event["tid"] == 2_000_000_000 && event["ph"] != "i" && event["ph"] != "M")
        .filter_map(|event| Some((event["name"].as_str()?, &event["ts"])))
        .collect();
    let names: Vec<&str> = steps.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["step 1", "step 1", "after step 1", "after step 1"]);
    assert_eq!(steps[1].1, steps[2].1, "one ends where the next begins");
}

#[test]
fn counters_are_of_the_wanted_device_and_level_and_failures_are_instants() {
    let folder = tempdir().expect("a folder");
    let mut capture = training(folder.path());
    capture.device(1);
    capture.event(Event {
        kind: EventKind::ALLOC,
        level: Level::DRIVER,
        device: DeviceOrdinal(1),
        ptr: 0x9000_0000,
        bytes: 5 * M,
        py_stack: StackId::NONE,
        ..Event::default()
    });
    let file = capture.finish();
    let counters = |options: &[&str]| -> Vec<(String, u64)> {
        let events = perfetto(&file, options);
        let counters = events.iter().filter(|event| event["ph"] == "C");
        let mut greatest = std::collections::BTreeMap::new();
        for event in counters {
            let name = event["name"].as_str().expect("a name").to_owned();
            let value = event["args"]["bytes"].as_u64().expect("bytes");
            let most: &mut u64 = greatest.entry(name).or_default();
            *most = value.max(*most);
        }
        greatest.into_iter().collect()
    };
    let of = |name: &str, mib: u64| (name.to_owned(), mib * M);
    assert_eq!(
        counters(&[]),
        [
            of("GPU 0 driver live", 288),
            of("GPU 0 host live", 8),
            of("GPU 0 reserved", 256),
            of("GPU 0 tensor live", 202),
            of("GPU 1 driver live", 5),
        ]
    );
    assert_eq!(counters(&["--device", "1"]), [of("GPU 1 driver live", 5)]);
    let tensor = [of("GPU 0 reserved", 256), of("GPU 0 tensor live", 202)];
    assert_eq!(counters(&["--level", "tensor"]), tensor);
    let events = perfetto(&file, &[]);
    let failure = events
        .iter()
        .find(|event| event["name"] == "out of memory: 20.0 GiB")
        .expect("the failure");
    assert_eq!(failure["ph"], "i");
    assert_eq!(failure["args"]["bytes"], 20_u64 << 30);
    assert_eq!(failure["args"]["line"], "train.py:16");
}

fn weights(file: &Path, options: &[&str]) -> u64 {
    let text = exported(&[&["firefox"], options].concat(), file);
    let profile: Value = serde_json::from_str(&text).expect("JSON");
    let table = &profile["threads"][0]["nativeAllocations"];
    let weights = table["weight"].as_array().expect("a list");
    weights.iter().filter_map(Value::as_u64).sum()
}

#[test]
fn parts_of_a_level_sum_to_it() {
    let folder = tempdir().expect("a folder");
    let file = training(folder.path()).finish();
    assert_eq!(weights(&file, &[]), 202 * M);
    assert_eq!(weights(&file, &["--at", "end"]), 102 * M);
    assert_eq!(weights(&file, &["--file", "train.py"]), 172 * M);
    // All of it was requested by that library, whichever line owns it.
    assert_eq!(weights(&file, &["--library", "libtorch_cuda"]), 202 * M);
    assert_eq!(weights(&file, &["--library", "libcublas"]), 0);
    let called = ["--level", "driver", "--library", "libcublas"];
    assert_eq!(weights(&file, &called), 32 * M);
    assert_eq!(weights(&file, &["--size", "60MiB"]), 120 * M);
    let rows = |options: &[&str]| {
        exported(&[&["csv"], options].concat(), &file)
            .lines()
            .count()
            - 1
    };
    assert_eq!(rows(&[]), 15);
    assert_eq!(rows(&["--level", "tensor"]), 11);
    assert_eq!(rows(&["--size", "60MiB"]), 3);
    assert_eq!(rows(&["--function", "Net.forward"]), 4);
}

#[test]
fn options_without_a_meaning_are_a_wrong_command_line() {
    let folder = tempdir().expect("a folder");
    let file = training(folder.path()).finish();
    for (format, option, value) in [("csv", "--at", "end"), ("perfetto", "--size", "1MiB")] {
        let output = analyze(&["export", format, option, value], &file);
        assert_eq!(output.status.code(), Some(2), "{format} {option}");
        let said = stderr(&output);
        let wanted = format!("{option} cannot be used with export {format}");
        assert!(said.contains(&wanted), "{said}");
    }
}

//! Memory over time.

use std::path::Path;

use gpumem_capture::{DeviceOrdinal, Event, EventKind, Level, StackId};
use serde_json::Value;
use tempfile::tempdir;

use crate::golden::{golden, masked};
use crate::ledger::known;
use crate::phases::two_steps;
use crate::run::{analyze, json_of, stdout};
use crate::synthetic::{M, Synthetic};
use crate::training::training;

fn timeline(arguments: &[&str], file: &Path) -> Value {
    let arguments = [&["timeline", "--format", "json"], arguments].concat();
    json_of(&arguments, file).0
}

fn number(value: &Value) -> u64 {
    value.as_u64().expect("a number")
}

/// Bytes of the bands of a kind at a point.
fn of_kind(device: &Value, point: &Value, kind: &str) -> u64 {
    let bands = device["bands"].as_array().expect("bands").iter();
    let bytes = point["bytes"].as_array().expect("bytes");
    bands
        .zip(bytes)
        .filter(|(band, _)| band["kind"] == kind)
        .map(|(_, bytes)| number(bytes))
        .sum()
}

#[test]
fn the_pictures_are_as_they_were() {
    let folder = tempdir().expect("a folder");
    for (name, make) in [
        ("training", training as fn(&Path) -> Synthetic),
        ("steps", two_steps),
    ] {
        let _ = std::fs::remove_file(folder.path().join("report.bin"));
        let file = make(folder.path()).finish();
        let said = stdout(&analyze(&["timeline"], &file));
        assert!(
            said.contains("report.timeline.svg: GPU 0 at its peak "),
            "{said}"
        );
        let svg = folder.path().join("report.timeline.svg");
        let svg = std::fs::read_to_string(svg).expect("the picture");
        golden(&format!("timeline-{name}.svg"), &svg);
        let text = stdout(&analyze(&["timeline", "--format", "text"], &file));
        golden(
            &format!("timeline-{name}.txt"),
            &masked(&text, folder.path()),
        );
        let again = stdout(&analyze(&["timeline", "-o", "-"], &file));
        assert_eq!(again, svg);
    }
}

#[test]
fn at_the_peak_the_bands_are_the_ledgers_rows() {
    for make in [training as fn(&Path) -> Synthetic, known, two_steps] {
        let folder = tempdir().expect("a folder");
        let file = make(folder.path()).finish();
        let timeline = timeline(&[], &file);
        let (ledgers, _) = json_of(&["ledger", "--format", "json"], &file);
        let ledgers = ledgers.as_array().expect("ledgers");
        assert!(!ledgers.is_empty());
        for ledger in ledgers {
            let devices = timeline["devices"].as_array().expect("devices");
            let device = devices
                .iter()
                .find(|device| device["device"] == ledger["device"]);
            let device = device.expect("the device");
            assert_eq!(device["peak"]["seq"], ledger["seq"]);
            let rows = ledger["rows"].as_array().expect("rows");
            for kind in ["tensors", "cached", "library"] {
                let rows = rows.iter().filter(|row| row["kind"] == kind);
                let sum: u64 = rows.map(|row| number(&row["bytes"])).sum();
                let unknown = match kind {
                    "library" => of_kind(device, &device["peak"], "unknown"),
                    _ => 0,
                };
                assert_eq!(
                    of_kind(device, &device["peak"], kind) + unknown,
                    sum,
                    "{kind}"
                );
            }
            let physical = &device["peak"]["physical_bytes"];
            assert_eq!(physical, &ledger["physical_bytes"]);
            assert_eq!(device["peak"]["host_bytes"], ledger["host_bytes"]);
        }
    }
}

#[test]
fn each_level_has_its_own_peak_and_end() {
    let folder = tempdir().expect("a folder");
    let file = training(folder.path()).finish();
    let (summary, _) = json_of(&["report", "--all", "--format", "json"], &file);
    for level in ["tensor", "driver", "host"] {
        let timeline = timeline(&["--level", level], &file);
        let device = &timeline["devices"][0];
        let figures = &summary["devices"][0][level];
        assert_eq!(device["peak"]["bytes"][0], figures["peak_bytes"]);
        let buckets = device["buckets"].as_array().expect("buckets");
        let most = buckets
            .iter()
            .map(|bucket| number(&bucket["most"]["bytes"][0]));
        assert_eq!(most.max(), figures["peak_bytes"].as_u64());
        let last = &buckets.last().expect("a bucket")["last"];
        assert_eq!(last["bytes"][0], figures["live_bytes"]);
    }
}

/// A run of a million times the shortest bucket, with a spike of a single event that lasts no time.
#[test]
fn a_spike_in_a_long_run_is_not_lost() {
    let folder = tempdir().expect("a folder");
    let mut capture = Synthetic::new(folder.path());
    let stack = StackId::NONE;
    let mut spike = 0;
    for index in 0..20_000_u64 {
        let high = index == 12_345;
        let bytes = if high { 777 * M } else { 2 * M };
        let seq = capture.tensor(0x1000 + index, bytes, 1024 * M, stack, stack);
        capture.free_tensor(0x1000 + index, bytes, 1024 * M, stack);
        spike = if high { seq.0 } else { spike };
    }
    let file = capture.finish();
    let timeline = timeline(&[], &file);
    let device = &timeline["devices"][0];
    let buckets = device["buckets"].as_array().expect("buckets");
    assert!((1000..=2048).contains(&buckets.len()), "{}", buckets.len());
    assert_eq!(number(&device["peak"]["seq"]), spike);
    let here = |bucket: &&Value| number(&bucket["most"]["seq"]) == spike;
    let bucket = buckets.iter().find(here).expect("the bucket of the spike");
    assert_eq!(number(&bucket["most"]["tensor_bytes"]), 777 * M);
    assert!(number(&bucket["last"]["tensor_bytes"]) <= 2 * M);
    for pair in buckets.windows(2) {
        assert!(number(&pair[0]["to_ns"]) <= number(&pair[1]["from_ns"]));
        assert!(number(&pair[0]["last"]["seq"]) < number(&pair[1]["most"]["seq"]));
    }
}

#[test]
fn host_memory_of_no_device_and_nothing_at_all() {
    let folder = tempdir().expect("a folder");
    let mut capture = Synthetic::new(folder.path());
    capture.event(Event {
        kind: EventKind::ALLOC,
        level: Level::HOST,
        device: DeviceOrdinal::NONE,
        ptr: 0x7000,
        bytes: 3 * M,
        ..Event::default()
    });
    let file = capture.finish();
    let text = stdout(&analyze(&["timeline", "--format", "text"], &file));
    assert!(text.contains("Without a device"), "{text}");
    assert!(
        text.contains("pinned host memory (at most 3.00 MiB)"),
        "{text}"
    );
    let said = stdout(&analyze(&["timeline"], &file));
    assert!(said.ends_with("host memory alone\n"), "{said}");

    let empty = tempdir().expect("a folder");
    let file = Synthetic::new(empty.path()).finish();
    let text = stdout(&analyze(&["timeline", "--format", "text"], &file));
    assert_eq!(text, "No memory was allocated.\n");
    let picture = analyze(&["timeline"], &file);
    assert_eq!(picture.status.code(), Some(1));
}

/// Tensors that are allocated and freed, one per millisecond.
fn busy(capture: &mut Synthetic, times: u64) {
    let stack = StackId::NONE;
    for index in 0..times {
        capture.tensor(0x1000 + index, 2 * M, 1024 * M, stack, stack);
        capture.free_tensor(0x1000 + index, 2 * M, 1024 * M, stack);
    }
}

fn picture(file: &Path) -> String {
    stdout(&analyze(&["timeline", "-o", "-"], file))
}

#[test]
fn idle_time_is_folded_and_the_rest_is_in_full_detail() {
    for (idle, folds) in [(0, 0), (10_000_000_000, 1)] {
        let folder = tempdir().expect("a folder");
        let mut capture = Synthetic::new(folder.path());
        busy(&mut capture, 30);
        let before = capture.event(Event::default()).0;
        capture.idle(idle);
        busy(&mut capture, 30);
        let file = capture.finish();
        let timeline = timeline(&[], &file);
        let folded = timeline["folds"].as_array().expect("folds");
        assert_eq!(folded.len(), folds, "{folded:?} after event {before}");
        assert_eq!(number(&timeline["bucket_ns"]), 1024);
        let (svg, text) = (picture(&file), ["timeline", "--format", "text"]);
        let text = stdout(&analyze(&text, &file));
        assert_eq!(svg.matches("class=\"fold\"").count(), folds);
        assert_eq!(svg.contains(">≈10.0 s</text>"), folds > 0);
        let said = text.contains("folded at ≈, where no event occurred: 10.0 s");
        assert_eq!(said, folds > 0, "{text}");
    }
}

#[test]
fn failures_beside_each_other_are_one_mark_with_their_number() {
    let folder = tempdir().expect("a folder");
    let mut capture = Synthetic::new(folder.path());
    let fail = |capture: &mut Synthetic| {
        capture.event(Event {
            kind: EventKind::OUT_OF_MEMORY,
            level: Level::TENSOR,
            bytes: 3 << 30,
            ..Event::default()
        });
    };
    busy(&mut capture, 2000);
    (0..40).for_each(|_| fail(&mut capture));
    busy(&mut capture, 2000);
    fail(&mut capture);
    let svg = picture(&capture.finish());
    assert_eq!(svg.matches("class=\"failed\"").count(), 2);
    assert!(svg.contains("class=\"o\">×40</text>"), "a count");
    assert!(
        svg.contains("\nand 32 more</title>"),
        "of whom eight are named"
    );
    assert_eq!(
        svg.matches("3.00 GiB (3,221,225,472 bytes) requested")
            .count(),
        9
    );
}

#[test]
fn a_part_of_the_run_begins_with_what_there_was() {
    let folder = tempdir().expect("a folder");
    let mut capture = Synthetic::new(folder.path());
    let stack = StackId::NONE;
    capture.event(Event {
        kind: EventKind::ALLOC,
        level: Level::TENSOR,
        device: DeviceOrdinal(1),
        ptr: 0x9000,
        bytes: 5 * M,
        aux: 8 * M,
        ..Event::default()
    });
    capture.tensor(0x1000, 100 * M, 1024 * M, stack, stack);
    let from = capture.tensor(0x2000, 7 * M, 1024 * M, stack, stack).0;
    capture.free_tensor(0x1000, 100 * M, 1024 * M, stack);
    let most = capture.tensor(0x3000, 20 * M, 1024 * M, stack, stack).0;
    let to = capture.free_tensor(0x3000, 20 * M, 1024 * M, stack).0;
    capture.tensor(0x4000, 500 * M, 1024 * M, stack, stack);
    let file = capture.finish();
    let [from, most, to] = [from, most, to].map(|seq| seq.to_string());
    let part = timeline(&["--from", &from, "--to", &to], &file);
    let of = |device: usize| &part["devices"][device];
    let tensors = |point: &Value| number(&point["tensor_bytes"]) / M;
    assert_eq!(tensors(&of(0)["buckets"][0]["most"]), 107);
    assert_eq!(of(0)["peak"]["seq"].to_string(), from);
    assert_eq!(tensors(&of(0)["peak"]), 107);
    assert_eq!(tensors(&of(1)["peak"]), 5, "nothing happened on it");
    let last = |device: usize| {
        let buckets = of(device)["buckets"].as_array().expect("buckets");
        tensors(&buckets.last().expect("a bucket")["last"])
    };
    assert_eq!((last(0), last(1)), (7, 5));
    let after = (number(&part["from_ns"]) + 1_500_000).to_string() + "ns";
    let later = timeline(&["--from", &after, "--to", &to], &file);
    assert_eq!(later["devices"][0]["peak"]["seq"].to_string(), most);
    assert_eq!(tensors(&later["devices"][0]["peak"]), 27);
    assert_eq!(format!("{}ns", later["from_ns"]), after, "the time itself");
    let svg = ["timeline", "-o", "-", "--from", &from, "--to", "peak"];
    let svg = stdout(&analyze(&svg, &file));
    assert!(
        svg.contains(&format!(">from event {from} (00:03.203) to the peak (")),
        "{svg}"
    );
    let wrong = analyze(&["timeline", "--from", "peak", "--to", &from], &file);
    let said = String::from_utf8_lossy(&wrong.stderr);
    assert_eq!(
        (wrong.status.code(), said.lines().count()),
        (Some(1), 1),
        "{said}"
    );
}

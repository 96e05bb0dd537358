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
            said.contains("report.timeline.svg: GPU 0 at most "),
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
    let (summary, _) = json_of(&["summary", "--format", "json"], &file);
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
    assert!(text.contains("Of no device"), "{text}");
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

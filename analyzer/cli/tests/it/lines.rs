//! `gpumem-analyze lines`: the owners of memory over time.

use gpumem_capture::StackId;
use serde_json::Value;
use tempfile::tempdir;

use crate::run::json_of;
use crate::synthetic::{M, Synthetic};
use crate::training::training;

/// The rows: line and function, MiB, blocks.
fn bytes_by_line(rows: &Value) -> Vec<(String, u64, u64)> {
    let rows = rows.as_array().expect("an array");
    rows.iter()
        .map(|row| {
            let place = match row["file"].as_str() {
                Some(file) => format!(
                    "{file}:{} {}",
                    row["line"],
                    row["function"].as_str().unwrap_or("?")
                ),
                None => format!("({})", row["library"].as_str().unwrap_or("no stack")),
            };
            (
                place,
                row["bytes"].as_u64().expect("bytes") / M,
                row["blocks"].as_u64().expect("blocks"),
            )
        })
        .collect()
}

#[test]
fn lines_own_what_they_allocated() {
    let folder = tempdir().expect("a folder");
    let file = training(folder.path()).finish();
    let line = |place: &str, bytes, blocks| (place.to_owned(), bytes, blocks);
    let forward = "/home/me/run/train.py:15 Net.forward";
    let data = "/home/me/run/train.py:8 <module>";
    let load = "/home/me/run/train.py:5 <module>";
    let (rows, exit) = json_of(&["lines", "--format", "json"], &file);
    assert_eq!(exit, 0);
    let peak = [
        line(forward, 120, 2),
        line(data, 40, 1),
        line("(libtorch_cuda.so)", 30, 1),
        line(load, 12, 4),
    ];
    assert_eq!(bytes_by_line(&rows), peak);
    let (rows, _) = json_of(&["lines", "--format", "json", "--at", "end"], &file);
    let end = [
        line(forward, 60, 1),
        line("(libtorch_cuda.so)", 30, 1),
        line(load, 12, 4),
    ];
    assert_eq!(bytes_by_line(&rows), end);
    let (rows, _) = json_of(&["lines", "--format", "json", "--level", "host"], &file);
    assert_eq!(bytes_by_line(&rows), [line(data, 8, 1)]);
}

#[test]
fn lines_at_an_event_are_those_just_after_it() {
    let folder = tempdir().expect("a folder");
    let mut capture = Synthetic::new(folder.path());
    let (one, two) = (
        capture.python(&[("a.py", "f", 1, true)]),
        capture.python(&[("a.py", "f", 2, true)]),
    );
    capture.tensor(0x1000, M, 0, one, StackId::NONE);
    let second = capture.tensor(0x2000, 2 * M, 0, two, StackId::NONE);
    capture.free_tensor(0x1000, M, 0, one);
    let file = capture.finish();
    let (rows, exit) = json_of(
        &["lines", "--format", "json", "--at", &second.0.to_string()],
        &file,
    );
    let expected = [
        ("/home/me/run/a.py:2 f".to_owned(), 2, 1),
        ("/home/me/run/a.py:1 f".to_owned(), 1, 1),
    ];
    assert_eq!((bytes_by_line(&rows), exit), (expected.to_vec(), 0));
}

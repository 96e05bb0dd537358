//! Exports captures as PyTorch snapshots, and imports them again.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use gpumem_analyzer::ask::CaptureFile;
use gpumem_analyzer::export::{TorchSnapshot, torch_snapshot};
use gpumem_analyzer::import;
use gpumem_analyzer::replay::At;
use gpumem_analyzer::symbols::Symbols;
use gpumem_analyzer::watch::Observer;
use gpumem_capture::{Event, EventFlags, EventKind, Level, StackId};
use tempfile::tempdir;

use crate::run::json_of;
use crate::synthetic::{M, Synthetic};
use crate::training::training;

/// Exports a capture, and imports the result; returns the snapshot and the new capture.
fn there_and_back(file: &Path, folder: &Path) -> (TorchSnapshot, PathBuf) {
    let mut capture = CaptureFile::open(file).expect("a capture");
    let session = capture.read(At::End).expect("a capture");
    let mut pass = |observer: &mut Observer<'_>| {
        capture.read_with(At::End, observer)?;
        Ok(())
    };
    let [(written, pickle), (_, again)] = [(); 2].map(|()| {
        let (mut pickle, mut symbols) = (Vec::new(), Symbols::default());
        let written = torch_snapshot(&mut pass, &session, None, &mut symbols, &mut pickle);
        (written.expect("memory"), pickle)
    });
    assert_eq!(pickle, again, "the same capture gives the same bytes");
    let back = folder.join("back.bin");
    import::torch_snapshot(&pickle, "back", &back).expect("a snapshot");
    (written, back)
}

/// Bytes and blocks by file and line of a view.
fn lines(arguments: &[&str], file: &Path) -> BTreeMap<(String, u64), (u64, u64)> {
    let (rows, _) = json_of(&[&["lines", "--format", "json"], arguments].concat(), file);
    let mut lines = BTreeMap::new();
    for row in rows.as_array().expect("rows") {
        let number = |key: &str| row[key].as_u64().unwrap_or(0);
        let place = (
            row["file"].as_str().unwrap_or("").to_owned(),
            number("line"),
        );
        let line: &mut (u64, u64) = lines.entry(place).or_default();
        line.0 += number("bytes");
        line.1 += number("blocks");
    }
    lines
}

#[test]
fn there_and_back_the_lines_are_the_same() {
    let folder = tempdir().expect("a folder");
    let file = training(folder.path()).finish();
    let (written, back) = there_and_back(&file, folder.path());
    // 8 tensors, 2 of them freed, the pool's segment, and the failure; the workspace is cuBLAS's own.
    let expected = TorchSnapshot {
        entries: 8 + 2 * 2 + 1 + 1,
        segments: 1,
        others: 1,
    };
    assert_eq!(written, expected);
    for at in ["peak", "end"] {
        assert_eq!(
            lines(&["--at", at], &back),
            lines(&["--at", at], &file),
            "{at}"
        );
    }
    let (summary, code) = json_of(&["report", "--all", "--format", "json"], &back);
    assert_eq!((&summary["exact"], code), (&true.into(), 0), "{summary}");
    assert_eq!(summary["devices"][0]["driver"]["live_bytes"], 256 * M);
    assert_eq!(summary["out_of_memory_events"], 1);
}

#[test]
fn expandable_segments_and_tensors_without_a_segment() {
    let folder = tempdir().expect("a folder");
    let mut capture = Synthetic::new(folder.path());
    let stack = capture.python(&[("/home/me/run/train.py", "<module>", 5, true)]);
    let (pool, nccl) = (0x20_0100, 0x40_0100);
    let handle = EventFlags::VMM_HANDLE;
    let mut map = |handle_number: u64, address: u64, bytes: u64, caller: u64| {
        capture.asked(handle_number, bytes, handle, caller, stack);
        capture.event(Event {
            kind: EventKind::MAP,
            level: Level::DRIVER,
            ptr: address,
            bytes,
            aux: handle_number,
            ..Event::default()
        });
    };
    map(1, 0x1000_0000, 20 * M, pool);
    map(2, 0x1000_0000 + 20 * M, 20 * M, pool);
    map(3, 0x9000_0000, 2 * M, nccl);
    map(4, 0x1000_0000 + 60 * M, 20 * M, pool);
    let unmap = |capture: &mut Synthetic, address: u64, bytes: u64, of: u64| {
        capture.event(Event {
            kind: EventKind::UNMAP,
            level: Level::DRIVER,
            ptr: address,
            bytes,
            ..Event::default()
        });
        capture.freed(Level::DRIVER, of, bytes, handle);
    };
    unmap(&mut capture, 0x1000_0000 + 60 * M, 20 * M, 4);
    unmap(&mut capture, 0x9000_0000, 2 * M, 3);
    capture.tensor(0x1000_0000 + 10 * M, 20 * M, 40 * M, stack, StackId::NONE);
    capture.tensor(0x5000_0000, 3 * M, 40 * M, stack, StackId::NONE);
    let file = capture.finish();
    let (written, back) = there_and_back(&file, folder.path());
    assert_eq!((written.segments, written.others), (2, 1));
    let (ledger, _) = json_of(
        &["ledger", "--segments", "--at", "end", "--format", "json"],
        &back,
    );
    let segments = ledger[0]["pool"]["segments"].as_array().expect("segments");
    let segments: Vec<_> = segments
        .iter()
        .map(|segment| {
            let number = |key: &str| segment[key].as_u64().unwrap_or(0);
            (
                number("address"),
                number("bytes"),
                number("live_bytes"),
                segment["expandable"] == true,
            )
        })
        .collect();
    assert_eq!(
        segments,
        [
            (0x1000_0000, 40 * M, 20 * M, true),
            (0x5000_0000, 3 * M, 3 * M, false)
        ]
    );
    // The stray tensor's segment has no allocation entry, so it existed before.
    assert_eq!(
        lines(&["--at", "end"], &back),
        lines(&["--at", "end"], &file)
    );
}

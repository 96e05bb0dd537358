//! `gpumem-analyze import` on snapshots with known bytes.

mod allocator;
mod refused;
mod snapshots;

use std::path::{Path, PathBuf};

use gpumem_analyzer::pickle::PickleWriter;
use serde_json::{Value, json};
use tempfile::tempdir;

use crate::golden::golden;
use crate::run::{analyze, json_of, run, stderr, stdout};
use snapshots::{
    ALLOCATES, At, CONV, EMPTY, EVALUATES, FORWARD, RECORDS, SOURCE, TAKES, TRAIN, frames, number,
    snapshot, text,
};

/// The end of a training: a block from before the trace, one that was allocated before and is freed in it, a pool that
/// grew, and an allocation that failed.
fn training() -> Vec<u8> {
    snapshot(
        &[
            (
                0x10_0000,
                0x20_0000,
                false,
                &[
                    (0x1_0000, 0xf000, "active_allocated", &[TRAIN]),
                    (0x8_0000, 0, "inactive", &[]),
                    (
                        0x1_0000,
                        0x1_0000,
                        "active_awaiting_free",
                        &[FORWARD, TRAIN],
                    ),
                    (0x16_0000, 0, "inactive", &[]),
                ],
            ),
            (
                0x1000_0000,
                0x140_0000,
                false,
                &[
                    (
                        0x10_0000,
                        0xf_0001,
                        "active_allocated",
                        &[CONV, FORWARD, TRAIN],
                    ),
                    (0x130_0000, 0, "inactive", &[]),
                ],
            ),
        ],
        &[
            ("free_completed", 0x11_0000, 0x400, 0, &[]),
            (
                "segment_alloc",
                0x1000_0000,
                0x140_0000,
                10,
                &[CONV, FORWARD, TRAIN],
            ),
            ("alloc", 0x1000_0000, 0xf_0001, 11, &[CONV, FORWARD, TRAIN]),
            ("alloc", 0x1010_0000, 0x100_0000, 20, &[]),
            ("alloc", 0x19_0000, 0x1_0000, 30, &[FORWARD, TRAIN]),
            ("oom", 0, 1 << 40, 40, &[TRAIN]),
            ("free_requested", 0x1010_0000, 0x100_0000, 50, &[]),
            ("free_completed", 0x1010_0000, 0x100_0000, 51, &[]),
            ("free_requested", 0x19_0000, 0x1_0000, 60, &[]),
            ("snapshot", 0, 0, 70, &[]),
        ],
    )
}

/// Imports a pickle; returns the capture, what was printed and the exit code.
fn imported(folder: &Path, pickle: &[u8]) -> (PathBuf, String, Option<i32>) {
    let (from, to) = (folder.join("dump.pickle"), folder.join("dump.bin"));
    std::fs::write(&from, pickle).expect("a file");
    let words = ["import", "torch-snapshot"].map(Path::new);
    let output = run(words.into_iter().chain([&*from, Path::new("-o"), &to]));
    let said = stdout(&output) + &stderr(&output);
    (to, said, output.status.code())
}

/// Rows of `lines`: line (0: none), bytes, blocks.
fn lines(arguments: &[&str], file: &Path) -> Vec<(u64, u64, u64)> {
    let (rows, _) = json_of(&[&["lines", "--format", "json"], arguments].concat(), file);
    let rows = rows.as_array().expect("rows").iter();
    rows.map(|row| {
        let number = |key: &str| row[key].as_u64().unwrap_or(0);
        (number("line"), number("bytes"), number("blocks"))
    })
    .collect()
}

fn tensors(file: &Path) -> Value {
    json_of(&["report", "--all", "--format", "json"], file).0["devices"][0]["tensor"].clone()
}

#[test]
fn the_end_is_the_snapshots_and_the_peak_the_traces() {
    let folder = tempdir().expect("a folder");
    let (file, said, code) = imported(folder.path(), &training());
    assert_eq!(code, Some(0), "{said}");
    golden(
        "import.txt",
        &said.replace(&format!("{}/", folder.path().display()), ""),
    );
    assert_eq!(
        lines(&["--at", "end"], &file),
        [(7, 0xf_0001, 1), (20, 0xf000, 1)]
    );
    // In use at the peak: the memory from before the trace, and all that it allocated.
    let peak = 0xf000 + 0xf_0001 + 0x100_0000 + 0x1_0000;
    assert_eq!(
        tensors(&file),
        json!({"live_bytes": 0xf_0001 + 0xf000, "peak_bytes": peak, "allocations": 5, "frees": 3})
    );
    let (summary, _) = json_of(&["report", "--all", "--format", "json"], &file);
    assert_eq!(summary["exact"], true);
    assert_eq!(summary["imported"], "PyTorch snapshot dump.pickle");
    assert_eq!(
        (&summary["hooks"], &summary["out_of_memory_events"]),
        (&json!(0), &json!(1))
    );
    assert_eq!(
        summary["process"]["started_unix_ns"],
        1_700_000_000_000_000_000_u64
    );
    assert_eq!(summary["process"]["duration_ns"], 70_000);
    let driver = &summary["devices"][0]["driver"];
    assert_eq!(driver["live_bytes"], 0x160_0000);
    assert_eq!(summary["devices"][0]["reserved"]["live_bytes"], 0x160_0000);
}

#[test]
fn every_view_takes_it() {
    let folder = tempdir().expect("a folder");
    let (file, ..) = imported(folder.path(), &training());
    for arguments in [
        &[][..],
        &["report", "--all"],
        &["lines"],
        &["ledger"],
        &["ledger", "--segments"],
        &["changes"],
        &["tree"],
        &["oom"],
        &["check"],
        &["flamegraph", "--format", "folded"],
    ] {
        let output = analyze(arguments, &file);
        let said = stdout(&output);
        assert_eq!(
            output.status.code(),
            Some(0),
            "{arguments:?}: {said}{}",
            stderr(&output)
        );
        assert!(
            !said.contains("agrees with NVML") && !said.contains("hooks armed"),
            "{said}"
        );
    }
    golden(
        "import-summary.txt",
        &stdout(&analyze(&["report", "--all"], &file)),
    );
    golden(
        "import-ledger.txt",
        &stdout(&analyze(&["ledger", "--segments"], &file)),
    );
}

#[test]
fn the_same_snapshot_gives_the_same_bytes() {
    let folder = tempdir().expect("a folder");
    let (file, ..) = imported(folder.path(), &training());
    let first = std::fs::read(&file).expect("a capture");
    let (file, said, code) = imported(folder.path(), &training());
    assert_eq!(
        (code, std::fs::read(&file).expect("a capture")),
        (Some(0), first),
        "{said}"
    );
}

#[test]
fn native_frames_have_names_and_libraries() {
    let folder = tempdir().expect("a folder");
    let native = [TAKES, RECORDS, ALLOCATES, EMPTY];
    let mixed = [TAKES, RECORDS, ALLOCATES, EMPTY, FORWARD, EVALUATES, TRAIN];
    let source = [ALLOCATES, SOURCE];
    let blocks: &[(u64, u64, &str, &[At])] = &[
        (0x400, 0x400, "active_allocated", &native),
        (0x800, 0x800, "active_allocated", &mixed),
        (0xc00, 0xc00, "active_allocated", &source),
    ];
    let pickle = snapshot(&[(0x10_0000, 0x1800, false, blocks)], &[]);
    let (file, said, code) = imported(folder.path(), &pickle);
    assert_eq!(code, Some(0), "{said}");
    assert!(
        said.contains("has no trace: tensors and their peak are those at the time of the snapshot"),
        "{said}"
    );
    let folded = stdout(&analyze(
        &["flamegraph", "--native", "--format", "folded"],
        &file,
    ));
    golden("import-native.txt", &folded);
    let (rows, _) = json_of(&["lines", "--format", "json"], &file);
    let owners: Vec<(&Value, &Value)> = rows
        .as_array()
        .expect("rows")
        .iter()
        .map(|row| (&row["line"], &row["library"]))
        .collect();
    assert_eq!(
        owners,
        [
            (&Value::Null, &json!("C++")),
            (&json!(7), &Value::Null),
            (&Value::Null, &json!("libtorch_cpu.so")),
        ]
    );
}

#[test]
fn expandable_segments_are_mapped_and_unmapped_in_pieces() {
    const MIB: u64 = 1 << 20;
    let folder = tempdir().expect("a folder");
    let at = |mib: u64| (1 << 32) + mib * MIB;
    let pickle = snapshot(
        &[
            (
                at(0),
                4 * MIB,
                true,
                &[(4 * MIB, 4 * MIB, "active_allocated", &[TRAIN])],
            ),
            (at(20), 10 * MIB, true, &[(10 * MIB, 0, "inactive", &[])]),
        ],
        &[
            ("segment_map", at(4), 16 * MIB, 1, &[TRAIN]),
            ("segment_map", at(30), 10 * MIB, 2, &[FORWARD]),
            ("segment_unmap", at(4), 6 * MIB, 3, &[]),
            ("segment_unmap", at(10), 10 * MIB, 4, &[]),
            ("segment_unmap", at(30), 20 * MIB, 5, &[]),
        ],
    );
    let (file, said, code) = imported(folder.path(), &pickle);
    assert_eq!(code, Some(0), "{said}");
    let (summary, _) = json_of(&["report", "--all", "--format", "json"], &file);
    let driver = &summary["devices"][0]["driver"];
    // 4 and 10 MiB at the end; 10 more that the last entry unmaps, and what two entries mapped.
    assert_eq!(driver["live_bytes"], 14 * MIB);
    assert_eq!(driver["peak_bytes"], (14 + 10 + 16 + 10) * MIB);
    let (ledger, _) = json_of(
        &["ledger", "--segments", "--at", "end", "--format", "json"],
        &file,
    );
    let segments = ledger[0]["pool"]["segments"].as_array().expect("segments");
    let segments: Vec<_> = segments
        .iter()
        .map(|segment| (segment["address"].as_u64(), segment["bytes"].as_u64()))
        .collect();
    assert_eq!(
        segments,
        [(Some(at(20)), Some(10 * MIB)), (Some(at(0)), Some(4 * MIB))]
    );
}

#[test]
fn a_trace_that_contradicts_itself_is_partial_and_ends_as_the_segments_do() {
    let folder = tempdir().expect("a folder");
    let blocks: &[(u64, u64, &str, &[At])] = &[(0x400, 0x300, "active_allocated", &[TRAIN])];
    let pickle = snapshot(
        &[(0x1000, 0x20_0000, false, blocks)],
        &[
            ("alloc", 0x1000, 0x100, 1, &[FORWARD]),
            ("alloc", 0x1000, 0x200, 2, &[FORWARD]),
            ("alloc", 0x2000, 0x700, 3, &[FORWARD]),
            ("free_completed", 0x2000, 0x800, 4, &[]),
            ("free_completed", 0x2000, 0x800, 5, &[]),
        ],
    );
    let (file, said, code) = imported(folder.path(), &pickle);
    assert_eq!(code, Some(3), "{said}");
    assert!(
        said.contains("the framework's own figure differed"),
        "{said}"
    );
    assert_eq!(lines(&["--at", "end"], &file), [(20, 0x300, 1)]);
    assert_eq!(tensors(&file)["live_bytes"], 0x300);
}

/// The forms of older versions.
#[test]
fn older_snapshots() {
    let folder = tempdir().expect("a folder");
    let mut bytes = Vec::new();
    let mut writer = PickleWriter::new(&mut bytes).expect("memory");
    let to = &mut writer;
    let mut list = to.begin_list().expect("memory");
    to.item(&mut list).expect("memory");
    to.begin_dict().expect("memory");
    number(to, "device", 1);
    number(to, "address", 0x10_0000);
    number(to, "total_size", 0x20_0000);
    to.word("blocks").expect("memory");
    let mut blocks = to.begin_list().expect("memory");
    for (size, state, asked) in [
        (0x200, "active_allocated", None),
        (0x400, "inactive", Some(0x400)),
        (0x800, "active_pending_free", Some(0x701)),
    ] {
        to.item(&mut blocks).expect("memory");
        to.begin_dict().expect("memory");
        number(to, "size", size);
        text(to, "state", state);
        if let Some(asked) = asked {
            to.word("history").expect("memory");
            let mut history = to.begin_list().expect("memory");
            for (asked, stack) in [(asked, FORWARD), (0x100, TRAIN)] {
                to.item(&mut history).expect("memory");
                to.begin_dict().expect("memory");
                number(to, "real_size", asked);
                to.word("frames").expect("memory");
                frames(to, &[stack]);
                to.end_dict().expect("memory");
            }
            to.end_list(history).expect("memory");
        }
        to.end_dict().expect("memory");
    }
    to.end_list(blocks).expect("memory");
    to.end_dict().expect("memory");
    to.end_list(list).expect("memory");
    writer.finish().expect("memory");
    let (file, said, code) = imported(folder.path(), &bytes);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(lines(&["--device", "1"], &file), [(0, 0x200, 1)]);
}

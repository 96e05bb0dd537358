//! The way of each answer: a capture is opened once, and read in at most two passes.

use std::fs;
use std::path::{Path, PathBuf};

use gpumem_analyzer::ask::{self, CaptureFile, way};
use gpumem_analyzer::replay::At;
use gpumem_analyzer::session::Session;
use gpumem_capture::writer::{Options, Writer};
use gpumem_capture::{DeviceOrdinal, Event, EventKind, Level};
use tempfile::tempdir;

use crate::run::analyze;

/// Command lines, with the passes that they take over a capture whose program died, and over one whose program did not.
const WAYS: [(&[&str], u32, u32); 41] = [
    (&["report"], 2, 1),
    (&["report", "--format", "json"], 2, 1),
    (&["report", "--all"], 1, 1),
    (&["lines"], 1, 1),
    (&["lines", "--annotate"], 1, 1),
    (&["lines", "--by", "module"], 1, 1),
    (&["lines", "--by", "scope"], 1, 1),
    (&["lines", "--by", "size"], 2, 2),
    (&["lines", "--by", "thread"], 2, 2),
    (&["lines", "--of", "allocated"], 1, 1),
    (&["lines", "--of", "growing"], 2, 2),
    (&["lines", "--of", "kept"], 2, 2),
    (&["lines", "--of", "temporary"], 2, 2),
    (&["lines", "--at", "step=1"], 1, 1),
    (&["tree"], 1, 1),
    (&["flamegraph", "-o", "-"], 1, 1),
    (&["flamegraph", "--from", "1", "-o", "-"], 2, 2),
    (&["ledger"], 1, 1),
    (&["ledger", "--at", "peak=driver"], 2, 2),
    (&["ledger", "--pool"], 2, 2),
    (&["leaks"], 2, 2),
    (&["oom"], 2, 1),
    (&["report", "--hints"], 2, 1),
    (&["changes"], 2, 2),
    (&["timeline", "-o", "-"], 1, 1),
    (&["timeline", "--from", "1", "--to", "end", "-o", "-"], 2, 2),
    (&["html", "-o", "-"], 2, 2),
    // The part of the run must be known before the first of the two others.
    (&["html", "--from", "1", "--at", "step=1", "-o", "-"], 3, 3),
    (&["check"], 1, 1),
    (&["export", "folded", "-o", "-"], 1, 1),
    (&["export", "speedscope", "-o", "-"], 1, 1),
    (&["export", "speedscope", "--at", "1", "-o", "-"], 2, 2),
    (&["export", "pprof", "-o", "-"], 1, 1),
    (&["export", "perfetto", "-o", "-"], 2, 2),
    (&["export", "firefox", "-o", "-"], 2, 2),
    (&["export", "csv", "-o", "-"], 2, 2),
    (&["export", "prometheus", "-o", "-"], 1, 1),
    (&["export", "torch-snapshot", "-o", "-"], 2, 2),
    (&["fleet", "rows"], 2, 1),
    (&["ranks"], 1, 1),
    (&["ci", "--head"], 1, 1),
];

fn capture(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/captures");
    folder.join(name).with_extension("bin")
}

#[test]
fn every_command_opens_a_capture_once_and_passes_over_it_twice_at_most() {
    let folder = tempdir().expect("a folder");
    for (died, name) in [(true, "optimizer"), (false, "demo")] {
        let file = folder.path().join(name).with_extension("bin");
        fs::copy(capture(name), &file).expect("a copy");
        for (arguments, of_death, of_other) in WAYS {
            let (output, way) = way::of(|| analyze(arguments, &file));
            let code = output.status.code();
            assert!(
                matches!(code, Some(0 | 3)),
                "{arguments:?} {name}: {output:?}"
            );
            let passes: Vec<u32> = way.iter().map(|of| of.passes).collect();
            let wanted = if died { of_death } else { of_other };
            assert_eq!(passes, [wanted], "{arguments:?} {name}");
            assert_eq!(way[0].path, file);
        }
    }
}

#[test]
fn all_passes_end_at_the_same_record_while_the_program_goes_on() {
    let folder = tempdir().expect("a folder");
    let path = folder.path().join("report.bin");
    let writer = Writer::create(&path, &Options::default()).expect("a new file");
    let mut written = 0_u64;
    let mut allocate = |blocks: u64| {
        for _ in 0..blocks {
            let event = Event {
                time: writer.now(),
                ptr: 0x7000_0000 + written * 4096,
                bytes: 512,
                kind: EventKind::ALLOC,
                level: Level::TENSOR,
                ..Event::default()
            };
            writer.event(&event).expect("room");
            written += 1;
        }
    };
    allocate(10);
    let live = |session: &Session| {
        session
            .replay
            .counters(DeviceOrdinal(0), Level::TENSOR)
            .live
    };
    let mut capture = CaptureFile::open_unmerged(&path).expect("a capture");
    let first = capture.read(At::End).expect("a first pass");
    allocate(5);
    let second = capture.read(At::Peak).expect("a second pass");
    assert_eq!([live(&first), live(&second)], [5120, 5120]);
    assert_eq!(first.account, second.account);
    let mut again = CaptureFile::open_again(&path, &first).expect("a capture");
    assert_eq!(live(&again.read(At::End).expect("another pass")), 5120);
    let new = ask::read(&path, At::End).expect("a capture");
    assert_eq!(live(&new), 15 * 512);
}

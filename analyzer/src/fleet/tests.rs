//! Rows of small captures.

use std::path::PathBuf;

use gpumem_capture::{
    CodeId, Definition, DeviceOrdinal, Event, EventKind, Level, Nanos, OfflineWriter, Origin,
    ProcessKey, PyFrame, StackId,
};
use gpumem_dataset::{CaptureRows, Cell, Table};

use super::*;
use crate::source;

const STARTED: u64 = 1_795_641_300_000_000_000;

/// A capture under construction.
struct Made {
    folder: tempfile::TempDir,
    writer: OfflineWriter,
    time: u64,
}

impl Made {
    fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("fleet").tempdir().unwrap();
        source::permit(source::Permission {
            none: false,
            root: Some(std::env::temp_dir()),
        });
        let origin = Origin {
            started_wall_ns: STARTED,
            nonce: 7,
        };
        let writer = OfflineWriter::create(&folder.path().join("a.bin"), origin, 1 << 12).unwrap();
        Self {
            folder,
            writer,
            time: 0,
        }
    }

    fn fact(&mut self, key: &str, value: &str) {
        let (key, value) = (key.into(), value.into());
        self.writer
            .define(&Definition::Process { key, value })
            .unwrap();
    }

    /// A stack of one function, at its first line.
    fn stack(&mut self, id: u32, file: &str, name: &str, first_line: u32) -> StackId {
        self.writer
            .define(&Definition::Code {
                id: CodeId(id),
                first_line,
                file: file.into(),
                name: name.into(),
                line_table: Vec::new(),
            })
            .unwrap();
        let frame = PyFrame {
            code: CodeId(id),
            offset: 0,
            entered_from_c: true,
        };
        self.writer
            .define(&Definition::PyStack {
                id: StackId(id),
                truncated: false,
                frames: vec![frame],
                modules: Vec::new(),
            })
            .unwrap();
        StackId(id)
    }

    fn event(&mut self, kind: EventKind, ptr: u64, bytes: u64, py_stack: StackId) {
        self.event_of(Level::TENSOR, kind, ptr, bytes, py_stack);
    }

    fn event_of(&mut self, level: Level, kind: EventKind, ptr: u64, bytes: u64, py_stack: StackId) {
        self.time += 1_000_000;
        let event = Event {
            kind,
            level,
            device: DeviceOrdinal(0),
            time: Nanos(self.time),
            ptr,
            bytes,
            py_stack,
            ..Event::default()
        };
        self.writer.event(&event).unwrap();
    }

    fn finish(self) -> (tempfile::TempDir, PathBuf) {
        self.writer.finish(Nanos(self.time)).unwrap();
        let path = self.folder.path().join("a.bin");
        (self.folder, path)
    }
}

fn rows_by(path: &std::path::Path, options: &Options) -> CaptureRows {
    rows(path, "captures/a.bin", options).unwrap()
}

fn options() -> Options {
    Options::default()
}

/// A capture of a job with secrets in all its names, and the file of its line.
fn secretive() -> (tempfile::TempDir, PathBuf) {
    let mut made = Made::new();
    let file = made.folder.path().join("secret_net.py");
    std::fs::write(&file, "secret_text = 1\n").unwrap();
    let past = std::time::SystemTime::UNIX_EPOCH;
    std::fs::File::options()
        .append(true)
        .open(&file)
        .unwrap()
        .set_modified(past)
        .unwrap();
    made.fact(ProcessKey::HOST, "secret-host");
    made.fact(ProcessKey::COMMAND, "python /srv/secret/train.py");
    let stack = made.stack(1, file.to_str().unwrap(), "SecretNet.secret_forward", 1);
    made.event(EventKind::ALLOC, 0x1000, 512, stack);
    made.event(EventKind::OUT_OF_MEMORY, 0, 1 << 40, stack);
    made.finish()
}

/// All texts of rows.
fn texts(rows: &CaptureRows) -> Vec<String> {
    fn of<T: Table>(rows: &[T], to: &mut Vec<String>) {
        for row in rows {
            for column in 0..T::INFO.columns.len() {
                if let Cell::Text(text) = row.cell(column) {
                    to.push(text.to_owned());
                }
            }
        }
    }
    let mut all = vec![rows.run.clone()];
    of(std::slice::from_ref(&rows.rank), &mut all);
    of(&rows.labels, &mut all);
    of(&rows.held, &mut all);
    of(&rows.lines, &mut all);
    of(&rows.frames, &mut all);
    of(&rows.ledger, &mut all);
    of(&rows.series, &mut all);
    of(&rows.steps, &mut all);
    of(&rows.failures, &mut all);
    all
}

#[test]
fn no_name_is_left_where_hashes_stand_for_them() {
    let (_folder, path) = secretive();
    let plain = rows_by(&path, &options());
    let named = |rows: &CaptureRows| texts(rows).join("\n").to_lowercase();
    for name in [
        "secret-host",
        "/srv/secret/train.py",
        "secret_net.py",
        "secretnet.secret_forward",
        "secret_text",
    ] {
        assert!(named(&plain).contains(name), "{name}: {}", named(&plain));
    }
    let hashed = Options {
        hash_paths: true,
        ..options()
    };
    let hashed = rows_by(&path, &hashed);
    for name in ["secret", "a.bin"] {
        assert!(!named(&hashed).contains(name), "{name}: {}", named(&hashed));
    }
    // printf captures/a.bin | sha256sum
    assert_eq!(&*hashed.rank.file, "hash:0dc9de50bba14518");
    assert!(
        hashed
            .lines
            .iter()
            .any(|line| line.label.starts_with("hash:"))
    );
    assert!(hashed.run.starts_with("hash-"));
    // Without a secret all keys are unchanged and join with those of rows with names.
    let keys = |rows: &CaptureRows| -> Vec<_> {
        rows.held
            .iter()
            .map(|row| (row.line_key, row.stack_key))
            .collect()
    };
    assert_eq!(keys(&plain), keys(&hashed));
    let by = |secret: &str| Options {
        hash_paths: true,
        secret: Some(secret.into()),
        ..options()
    };
    let (one, other) = (rows_by(&path, &by("one")), rows_by(&path, &by("other")));
    for (a, b) in [(&plain, &one), (&one, &other)] {
        assert_ne!(a.held[0].line_key, b.held[0].line_key);
        assert_ne!(a.held[0].stack_key, b.held[0].stack_key);
        assert_ne!(a.rank.version, b.rank.version);
        assert_ne!(a.rank.file, b.rank.file);
    }
    assert_eq!(plain.rank.capture, one.rank.capture);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[16] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let header = crate::ask::header(&path).unwrap();
    assert_eq!(key(&header), plain.rank.capture, "by the second copy");
}

#[test]
fn texts_can_be_left_out_and_keys_stay() {
    let (_folder, path) = secretive();
    let with = rows_by(&path, &options());
    let without = Options {
        source_text: false,
        ..options()
    };
    let without = rows_by(&path, &without);
    let known = with.lines.iter().find(|line| line.line.is_some()).unwrap();
    assert_eq!(known.text.as_deref(), Some("secret_text = 1"));
    assert!(without.lines.iter().all(|line| line.text.is_none()));
    assert_eq!(with.held, without.held);
}

#[test]
fn the_same_line_has_the_same_key_where_it_has_moved() {
    let at = |number: u32, text: &str| {
        let mut made = Made::new();
        let file = made.folder.path().join("net.py");
        std::fs::write(&file, "\n".repeat(number as usize - 1) + text).unwrap();
        let file_of = std::fs::File::options().append(true).open(&file).unwrap();
        file_of
            .set_modified(std::time::SystemTime::UNIX_EPOCH)
            .unwrap();
        let folder = made.folder.path().to_str().unwrap().to_owned();
        made.fact(ProcessKey::DIRECTORY, &folder);
        let stack = made.stack(1, file.to_str().unwrap(), "f", number);
        made.event(EventKind::ALLOC, 0x1000, 512, stack);
        let (_folder, path) = made.finish();
        let rows = rows_by(&path, &options());
        (rows.held[0].line_key, rows.lines[0].line, rows.rank.version)
    };
    let (here, moved, other) = (at(3, "  x = f()"), at(7, "x = f()"), at(3, "x = g()"));
    assert_eq!((here.1, moved.1), (Some(3), Some(7)));
    assert_eq!(here.0, moved.0);
    assert_ne!(here.0, other.0);
    assert_ne!(here.2, other.2, "the version is of the file");
    assert_eq!(here.2, at(3, "  x = f()").2);
}

#[test]
fn without_its_files_a_version_is_of_the_functions_as_they_ran() {
    let of = |first_line: u32| {
        let mut made = Made::new();
        let stack = made.stack(1, "/nowhere/net.py", "f", first_line);
        made.event(EventKind::ALLOC, 0x1000, 512, stack);
        let (_folder, path) = made.finish();
        rows_by(&path, &options()).rank.version
    };
    assert_eq!(of(3), of(3));
    assert_ne!(of(3), of(4));
    let mut made = Made::new();
    made.event(EventKind::ALLOC, 0x1000, 512, StackId::NONE);
    let (_folder, path) = made.finish();
    assert_eq!(&*rows_by(&path, &options()).rank.version, "unknown");
}

#[test]
fn of_many_holders_the_smallest_are_put_together_and_sums_stay() {
    let mut made = Made::new();
    for line in 1..=2_100 {
        let stack = made.stack(line, "/nowhere/net.py", "f", line);
        made.event(
            EventKind::ALLOC,
            u64::from(line) << 20,
            512 * u64::from(line),
            stack,
        );
    }
    let (_folder, path) = made.finish();
    let rows = rows_by(&path, &options());
    let peak: Vec<_> = rows
        .held
        .iter()
        .filter(|row| &*row.moment == "peak")
        .collect();
    assert_eq!(peak.len(), 2_001);
    let others = rows
        .lines
        .iter()
        .find(|line| &*line.label == "(others)")
        .unwrap();
    let others = peak
        .iter()
        .find(|row| row.line_key == others.line_key)
        .unwrap();
    assert_eq!((others.bytes, others.blocks), (512 * 100 * 101 / 2, 100));
    assert_eq!(others.stack_key, None);
    let sum: i64 = peak.iter().map(|row| row.bytes).sum();
    assert_eq!(sum, rows.rank.tensor_peak_bytes);
    assert_eq!(sum, 512 * 2_100 * 2_101 / 2);
}

#[test]
fn a_run_is_its_job_or_the_process_alone() {
    let run = |facts: &[(&str, &str)], asked: Option<&str>| {
        let mut made = Made::new();
        for (key, value) in facts {
            made.fact(key, value);
        }
        let (_folder, path) = made.finish();
        let options = Options {
            run: asked.map(str::to_owned),
            ..options()
        };
        rows_by(&path, &options).run
    };
    let host = (ProcessKey::HOST, "node 7");
    let job = (ProcessKey::JOB, "torchrun:run_7 slurm:4711");
    assert_eq!(run(&[host], None), "node-7-20261125T211500-0");
    assert_eq!(run(&[], None), "unknown-20261125T211500-0");
    assert_eq!(run(&[host, job], None), "torchrun-run_7-slurm-4711");
    assert_eq!(run(&[host, job], Some("2026/11")), "2026-11");
}

#[test]
fn events_name_their_lines_and_stop_where_the_sink_fails() {
    let mut made = Made::new();
    let kept = made.stack(1, "/nowhere/net.py", "kept", 1);
    let gone = made.stack(2, "/nowhere/net.py", "gone", 2);
    made.event(EventKind::ALLOC, 0x1000, 512, kept);
    made.event(EventKind::ALLOC, 0x2000, 256, gone);
    made.event(EventKind::FREE, 0x2000, 256, StackId::NONE);
    made.event(EventKind::ALLOC, 0x3000, 1024, kept);
    let (_folder, path) = made.finish();
    let mut taken = take(&path, "a.bin", &options()).unwrap();
    let mut events = Vec::new();
    let more = taken.events::<crate::session::Error>(&mut |event| {
        events.push(event);
        Ok(())
    });
    let lines: Vec<_> = taken.rows.lines.iter().map(|line| line.line_key).collect();
    let more: Vec<_> = more.unwrap().iter().map(|line| line.line_key).collect();
    assert_eq!(
        (lines.len(), more.len()),
        (1, 1),
        "a line that holds nothing at a moment"
    );
    let of: Vec<_> = events
        .iter()
        .map(|of| (&*of.kind, of.bytes, of.live_bytes, of.line_key))
        .collect();
    assert_eq!(
        of,
        [
            ("alloc", 512, Some(512), Some(lines[0])),
            ("alloc", 256, Some(768), Some(more[0])),
            ("free", 256, Some(512), Some(more[0])),
            ("alloc", 1024, Some(1536), Some(lines[0])),
        ]
    );
    assert_eq!(events[2].block_seq, Some(events[1].seq));
    assert_eq!(events[0].time, (STARTED / 1000 + 1000) as i64);
    let mut given = 0;
    let failed = taken.events(&mut |_| {
        given += 1;
        Err(Box::<dyn std::error::Error>::from("full"))
    });
    assert_eq!(
        (failed.unwrap_err().to_string(), given),
        ("full".to_owned(), 1)
    );
}

#[test]
fn the_overhead_at_the_peak_is_of_one_moment() {
    let mut made = Made::new();
    let mut event = |level, kind, ptr, bytes| made.event_of(level, kind, ptr, bytes, StackId::NONE);
    event(Level::PHYSICAL, EventKind::ALLOC, 1, 130);
    event(Level::DRIVER, EventKind::ALLOC, 1, 100);
    event(Level::DRIVER, EventKind::FREE, 1, 100);
    // The physical level's own peak comes later: 330 bytes.
    event(Level::PHYSICAL, EventKind::ALLOC, 2, 200);
    let (_folder, path) = made.finish();
    let rows = rows_by(&path, &options());
    let overhead = |moment: &str| -> Vec<i64> {
        let rows = rows.held.iter();
        let of = rows.filter(|row| (&*row.moment, &*row.level) == (moment, "overhead"));
        of.map(|row| row.bytes).collect()
    };
    assert_eq!((overhead("peak"), overhead("end")), (vec![30], vec![330]));
}

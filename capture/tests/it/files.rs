//! Files that are not captures, and disks that cannot be written to.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use gpumem_capture::*;

use crate::elsewhere;
use crate::support::*;

fn open_error(bytes: &[u8]) -> OpenError {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.bin");
    std::fs::write(&path, bytes).unwrap();
    let error = Reader::open(&path).unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with(path.to_str().unwrap()) && !text.contains('\n'),
        "{text}"
    );
    error
}

fn whole() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.bin");
    Writer::create(&path, &Options::default().ring_slots(64)).unwrap();
    std::fs::read(path).unwrap()
}

#[test]
fn what_is_no_capture_gets_one_clear_reason() {
    assert!(matches!(open_error(b""), OpenError::Empty { .. }));
    assert!(matches!(
        open_error(b"#!/bin/sh\necho\n"),
        OpenError::Foreign { .. }
    ));
    assert!(matches!(
        open_error(&[0; 100_000]),
        OpenError::Foreign { .. }
    ));
    let whole = whole();
    for length in [1, 7, 8, 100, 511, 512, 4096, 24_575] {
        let error = open_error(&whole[..length]);
        assert!(
            matches!(error, OpenError::TooShort { .. }),
            "{length}: {error}"
        );
    }
    let mut future = whole.clone();
    future[8] = 9;
    future[2048 + 8] = 9;
    let error = open_error(&future);
    assert!(
        matches!(
            error,
            OpenError::FutureVersion {
                found: 9,
                supported: 1,
                ..
            }
        ),
        "{error}"
    );
    let mut damaged = whole.clone();
    damaged[30] ^= 1;
    damaged[2048 + 30] ^= 1;
    assert!(matches!(
        open_error(&damaged),
        OpenError::DamagedHeader { .. }
    ));
    let missing = Reader::open("/nonexistent/report.bin".as_ref()).unwrap_err();
    assert!(matches!(missing, OpenError::Io { .. }));
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(
        Reader::open(folder.path()),
        Err(OpenError::Io { .. })
    ));
}

#[test]
fn one_damaged_copy_of_the_header_does_not_matter() {
    for offset in [0, 8, 100, 2048 + 4, 2048 + 8] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.bin");
        let mut bytes = whole();
        bytes[offset] ^= 0x40;
        std::fs::write(&path, bytes).unwrap();
        let (_, integrity) = read(&path);
        assert_eq!(integrity.damage.len(), 1, "{integrity:?}");
    }
}

#[test]
fn a_capture_is_never_written_over_an_existing_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.bin");
    std::fs::write(&path, b"precious").unwrap();
    let error = Writer::create(&path, &Options::default()).err().unwrap();
    assert_eq!(error.errno(), libc::EEXIST);
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    let error = Writer::create(&folder.path().join("no/such"), &Options::default())
        .err()
        .unwrap();
    assert_eq!(error.errno(), libc::ENOENT);
    assert!(
        error.to_string().contains("no/such: cannot create"),
        "{error}"
    );
}

/// Runs a test of this file in a separate process, under a shell's `ulimit -f` (in KiB).
fn in_limited_process(test: &str, kib: u64) {
    let program = std::env::current_exe().unwrap();
    let script = format!(
        "ulimit -f {kib} && exec \"$0\" --exact {test} --ignored --nocapture --test-threads 1"
    );
    let output = Command::new("bash")
        .args(["-c", &script])
        .arg(program)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{output:?}"
    );
}

#[test]
fn a_file_size_limit_below_the_head_refuses_the_capture() {
    in_limited_process("files::limited_at_creation", 64);
}

#[test]
#[ignore = "run by a_file_size_limit_below_the_head_refuses_the_capture"]
fn limited_at_creation() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.bin");
    let error = Writer::create(&path, &Options::default()).err().unwrap();
    assert_eq!(error.errno(), libc::EFBIG);
    assert!(!path.exists());
}

#[test]
fn a_full_disk_keeps_the_ring_and_counts_the_rest() {
    in_limited_process("files::limited_later", 32);
}

#[test]
#[ignore = "run by a_full_disk_keeps_the_ring_and_counts_the_rest"]
fn limited_later() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.bin");
    let options = Options::default().ring_slots(64);
    let writer = Writer::create(&path, &options).unwrap();
    let mut recorded = 0;
    with_drain(writer, || {
        for n in 0..20_000_u64 {
            // Incompressible data.
            let ptr = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let (bytes, kind) = (ptr >> 30, EventKind::MAP);
            let event = Event {
                ptr,
                bytes,
                kind,
                ..Event::default()
            };
            recorded += u64::from(writer.event(&event).is_ok());
        }
    });
    assert!(std::fs::metadata(&path).unwrap().len() <= 32 * 1024);
    let (records, integrity) = read(&path);
    assert_eq!(records.len() as u64, recorded);
    assert_eq!(integrity.events_lost, 20_000 - recorded);
    assert!(integrity.damage.is_empty(), "{integrity:?}");
    let error = integrity.drain_error.unwrap();
    assert!(error.contains("File too large"), "{error}");
}

#[test]
fn a_capture_that_was_deleted_is_known() {
    for ring in [RingPlace::InCapture, RingPlace::Memfd] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.bin");
        let options = Options::default().ring_slots(64).ring(ring);
        let writer = Writer::create(&path, &options).unwrap();
        with_drain(writer, || {});
        assert!(!writer.is_deleted());
        std::fs::remove_file(&path).unwrap();
        with_drain(writer, || {});
        assert!(writer.is_deleted(), "{options:?}");
    }
}

/// Records, cuts or overwrites the capture by `harm`, and records more: the capture is readable and says what is missing.
fn harmed(options: &Options, harm: &dyn Fn(&std::path::Path)) -> (bool, Vec<u64>, Integrity) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.bin");
    let writer = Writer::create(&path, options).unwrap();
    let cut = std::sync::atomic::AtomicU64::new(0);
    let cut = &cut;
    let drain = |tell: &(dyn Fn(Trouble<'_>) + Sync)| match options.bounded {
        None => writer.drain_telling(tell),
        Some(_) => writer.drain_bounded(&mut elsewhere::Nothing),
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            drain(&|trouble| {
                if let Trouble::Cut(bytes) = trouble {
                    cut.fetch_add(bytes, std::sync::atomic::Ordering::Relaxed);
                }
            });
        });
        for n in 0..40_000 {
            writer.event(&elsewhere::event(writer, n)).unwrap();
        }
        assert!(writer.await_written(AT_MOST));
        harm(&path);
        for n in 40_000..80_000 {
            writer.event(&elsewhere::event(writer, n)).unwrap();
        }
        writer.finish();
        assert!(writer.close(AT_MOST));
    });
    assert!(
        options.bounded.is_some()
            || (cut.load(std::sync::atomic::Ordering::Relaxed) > 0) == writer.is_cut()
    );
    let mut found = Vec::new();
    let integrity = Reader::open(&path)
        .unwrap()
        .read(&mut |record| {
            if let Record::Event(_, event) = record {
                found.push(event.ptr);
            }
        })
        .unwrap();
    (writer.is_cut(), found, integrity)
}

#[test]
fn a_capture_that_was_cut_is_readable_and_says_so() {
    let cut_to = |length: u64| {
        move |path: &std::path::Path| {
            let file = std::fs::File::options().write(true).open(path).unwrap();
            file.set_len(length).unwrap();
        }
    };
    let overwrite = |path: &std::path::Path| std::fs::write(path, vec![7; 10_000_000]).unwrap();
    let options = patient(1024).ring(RingPlace::Memfd);
    for length in [0, 1, 600, 8192, 24_576, 30_000] {
        let (is_cut, found, integrity) = harmed(&options, &cut_to(length));
        assert!(
            is_cut && !integrity.is_whole() && integrity.clean_exit,
            "{length}: {integrity:?}"
        );
        assert_eq!(found.last(), Some(&79_999), "{length}");
        assert!(found.contains(&41_024), "{length}");
    }
    let (is_cut, found, integrity) = harmed(&options, &overwrite);
    assert!(is_cut && !integrity.is_whole(), "{integrity:?}");
    assert_eq!(found.last(), Some(&79_999));
    let bounded = patient(1024).ring(RingPlace::Memfd).bounded(Some(12 << 20));
    let (is_cut, found, integrity) = harmed(&bounded, &cut_to(0));
    assert!(is_cut && !integrity.is_whole(), "{integrity:?}");
    assert_eq!(found.last(), Some(&79_999));
    // Usually only the journal, of which all is written again; or the last page, if the drain has just written it.
    let behind_the_pages = |path: &std::path::Path| {
        let length = std::fs::metadata(path).unwrap().len();
        cut_to(length - 1)(path);
    };
    let (is_cut, found, integrity) = harmed(&options, &behind_the_pages);
    assert_eq!(is_cut, !integrity.is_whole(), "{integrity:?}");
    assert!(is_cut || found.len() == 80_000, "{}", found.len());
}

#[test]
fn a_descriptor_that_the_program_closed_is_not_written_to() {
    let folder = tempfile::tempdir().unwrap();
    let program = std::env::current_exe().unwrap();
    let output = Command::new(program)
        .args([
            "--exact",
            "files::closes_everything",
            "--ignored",
            "--test-threads",
            "1",
        ])
        .env("GPUMEM_CAPTURE_FOLDER", folder.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(
        std::fs::metadata(folder.path().join("innocent"))
            .unwrap()
            .len(),
        0
    );
    let (records, integrity) = read(&folder.path().join("report.bin"));
    assert!(integrity.is_whole() && integrity.pages > 0, "{integrity:?}");
    assert_eq!(records.len(), 100);
}

#[test]
#[ignore = "run by a_descriptor_that_the_program_closed_is_not_written_to"]
fn closes_everything() {
    let folder = std::env::var_os("GPUMEM_CAPTURE_FOLDER").unwrap();
    let folder = std::path::Path::new(&folder);
    let writer = Writer::create(&folder.join("report.bin"), &patient(256)).unwrap();
    // Like programs that become daemons.
    for descriptor in 3..64 {
        // SAFETY: the purpose is to close every descriptor; this process uses none of them.
        unsafe { libc::close(descriptor) };
    }
    let innocent: Vec<_> = (0..40)
        .map(|_| {
            std::fs::File::options()
                .append(true)
                .create(true)
                .open(folder.join("innocent"))
        })
        .collect();
    with_drain(writer, || {
        for n in 0..100 {
            writer
                .event(&Event {
                    ptr: n,
                    ..Event::default()
                })
                .unwrap();
        }
    });
    std::mem::forget(innocent);
}

#[test]
fn only_its_owner_may_open_a_capture() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.bin");
    for ring in [RingPlace::InCapture, RingPlace::Memfd] {
        Writer::create(&path, &Options::default().ring_slots(64).ring(ring)).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        std::fs::remove_file(&path).unwrap();
    }
}

#[test]
fn a_forked_child_records_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.bin");
    let writer = Writer::create(&path, &Options::default().ring_slots(64)).unwrap();
    writer
        .event(&Event {
            kind: EventKind::ALLOC,
            bytes: 1,
            ..Event::default()
        })
        .unwrap();
    // SAFETY: the child only loads and compares, and leaves by _exit.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let event = Event {
            kind: EventKind::ALLOC,
            bytes: 1,
            ..Event::default()
        };
        let refused = writer.event(&event) == Err(Lost::OtherProcess)
            && writer.definition(DefKind::NOTE, &[]) == Err(Lost::OtherProcess)
            && !writer.is_own_process();
        writer.finish();
        writer.drain();
        // SAFETY: always sound.
        unsafe { libc::_exit(i32::from(!refused)) };
    }
    let mut status = 0;
    // SAFETY: `status` is valid for writing.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(status, 0);
    assert!(writer.is_own_process());
    let (records, integrity) = read(&path);
    assert_eq!(records.len(), 1);
    assert!(!integrity.clean_exit && integrity.is_whole());
    assert_eq!(
        writer.counters(DeviceOrdinal(0), Level::TENSOR).allocations,
        1
    );
}

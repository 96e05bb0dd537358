//! A ring outside its capture: read with it, merged after a kill, reported as gone.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use gpumem_capture::*;

use crate::support::*;

const VARIABLE: &str = "GPUMEM_CAPTURE_ELSEWHERE";
const READY: &str = "all is recorded";
pub const SLOTS: u32 = 1024;

/// A ring in a folder in memory that belongs to the test, because other tests sweep theirs.
pub fn options(rings: &Path) -> Options {
    let folder = RingPlace::Folders(vec![rings.to_owned()]);
    patient(SLOTS).ring(folder)
}

pub fn event(writer: &Writer, n: u64) -> Event {
    Event {
        time: writer.now(),
        ptr: n,
        bytes: n + 1,
        kind: EventKind::ALLOC,
        ..Event::default()
    }
}

/// Reads and checks that the events are those that were written, in order; returns how many.
pub fn count(path: &Path) -> (u64, Integrity) {
    let (records, integrity) = read(path);
    for (n, event) in events(&records).enumerate() {
        assert_eq!(event.ptr, n as u64);
    }
    (integrity.events, integrity)
}

/// Not a test: records that many events, and a definition after each 50, then waits to be killed. Its arguments are
/// `folder,rings,events,drained`: with a drain or without one.
#[test]
#[ignore = "killed by others"]
fn victim() {
    let wanted = std::env::var(VARIABLE).unwrap();
    let [folder, rings, count, drained]: [&str; 4] = wanted
        .split(',')
        .collect::<Vec<_>>()
        .try_into()
        .expect("four words");
    let path = Path::new(folder).join("report.bin");
    let writer = Writer::create(&path, &options(Path::new(rings))).unwrap();
    if drained == "drained" {
        std::thread::spawn(|| writer.drain());
    }
    for n in 0..count.parse().unwrap() {
        writer.event(&event(writer, n)).unwrap();
        if n % 50 == 0 {
            let _ = writer.definition(DefKind(200), &[&[7; 300]]);
        }
    }
    if drained == "drained" {
        assert!(writer.await_written(AT_MOST));
    }
    println!("\n{READY}");
    loop {
        std::thread::park();
    }
}

/// A capture whose process was killed after that many events, and the path of its ring.
pub fn killed(folder: &Path, rings: &Path, count: u64, drained: bool) -> (PathBuf, PathBuf) {
    let drained = if drained { "drained" } else { "not" };
    let wanted = format!("{},{},{count},{drained}", folder.display(), rings.display());
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "elsewhere::victim", "--ignored", "--nocapture"])
        .env(VARIABLE, wanted)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let printed = BufReader::new(victim.stdout.take().unwrap()).lines();
    assert!(printed.map_while(Result::ok).any(|line| line == READY));
    let path = folder.join("report.bin");
    if drained == "drained" {
        let copy = folder.join("copy.bin");
        std::fs::write(&copy, without_ring(std::fs::read(&path).unwrap())).unwrap();
        assert_eq!(read(&copy).1.events, count);
    }
    victim.kill().unwrap();
    victim.wait().unwrap();
    let rings = std::fs::read_dir(rings).unwrap().flatten();
    let ring = rings
        .map(|entry| entry.path())
        .find(|ring| std::fs::read(ring).is_ok_and(|bytes| names(&bytes, &path)));
    (path, ring.expect("the ring outlives its process"))
}

/// Whether a ring has the path of its capture.
fn names(ring: &[u8], path: &Path) -> bool {
    ring[64..].starts_with(path.as_os_str().as_encoded_bytes())
}

/// A copy of a capture whose ring does not exist.
pub fn without_ring(bytes: Vec<u8>) -> Vec<u8> {
    with_another_header(bytes, 160)
}

/// Records without a drain, with one, and after it: everything is read, including the ring's part.
pub fn is_read_while_it_runs(writer: &'static Writer, path: &Path) {
    for n in 0..500 {
        writer.event(&event(writer, n)).unwrap();
    }
    let (events, integrity) = count(path);
    assert_eq!((events, integrity.ring), (500, RingState::Read));
    with_drain(writer, || {
        for n in 500..5000 {
            writer.event(&event(writer, n)).unwrap();
        }
    });
    for n in 5000..5500 {
        writer.event(&event(writer, n)).unwrap();
    }
    let (events, integrity) = count(path);
    assert!(integrity.is_whole(), "{integrity:?}");
    assert_eq!((events, integrity.ring), (5500, RingState::Read));
}

#[test]
fn a_ring_in_a_file_of_its_own_is_read_with_its_capture() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.bin");
    let rings = in_memory();
    let writer = Writer::create(&path, &options(rings.path())).unwrap();
    is_read_while_it_runs(writer, &path);
    let mode = std::fs::metadata(writer.ring_path().unwrap())
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_capture_that_was_closed_has_nothing_of_its_ring() {
    for bounded in [None, Some(12 << 20)] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.bin");
        let rings = in_memory();
        let options = options(rings.path()).bounded(bounded);
        let writer = Writer::create(&path, &options).unwrap();
        let ring = writer.ring_path().unwrap().to_owned();
        let drain = || {
            std::thread::spawn(move || match bounded {
                None => writer.drain(),
                Some(_) => writer.drain_bounded(&mut Nothing),
            })
        };
        let thread = drain();
        for n in 0..5000 {
            writer.event(&event(writer, n)).unwrap();
        }
        writer.finish();
        assert!(writer.close(AT_MOST));
        thread.join().unwrap();
        assert!(!ring.exists());
        let (_, integrity) = read_any(&path);
        assert!(
            integrity.is_whole() && integrity.clean_exit,
            "{integrity:?}"
        );
        assert_eq!(
            (integrity.events, integrity.ring),
            (5000, RingState::NotNeeded)
        );
        let length = std::fs::metadata(&path).unwrap().len();
        match bounded {
            None => assert!(length < 64 << 10, "{length}"),
            Some(most) => assert!(length <= most),
        }
        let counters = Reader::open(&path).unwrap().counters();
        assert_eq!((counters.of, counters.rows.len()), (Some(Seq(5000)), 1));
        assert_eq!(counters.rows[0].2.allocations, 5000);
    }
}

pub struct Nothing;

impl StateSink for Nothing {
    fn take(&mut self, _: Record<'_>) {}

    fn state(&mut self, _: usize, out: &mut Vec<u8>) {
        out.extend_from_slice(b"nothing");
    }
}

pub fn read_any(path: &Path) -> (u64, Integrity) {
    let mut records = 0;
    let integrity = Reader::open(path)
        .unwrap()
        .read(&mut |_| records += 1)
        .unwrap();
    (records, integrity)
}

#[test]
fn what_a_killed_process_left_in_its_ring_is_taken_over() {
    for (events, drained) in [(1, false), (700, false), (700, true), (20_000, true)] {
        let folder = tempfile::tempdir().unwrap();
        let rings = in_memory();
        let (path, ring) = killed(folder.path(), rings.path(), events, drained);
        let before = count(&path);
        assert_eq!((before.0, &before.1.ring), (events, &RingState::Read));
        assert_eq!(merge(&path).unwrap(), Merged::Done);
        assert!(!ring.exists());
        let after = count(&path);
        assert!(
            after.1.is_whole() && after.1.in_flight == 0,
            "{:?}",
            after.1
        );
        assert_eq!((after.0, after.1.ring), (events, RingState::NotNeeded));
        assert_eq!(merge(&path).unwrap(), Merged::Nothing);
    }
}

/// Not a test: records 300 events, and becomes another program.
#[test]
#[ignore = "run by a_process_that_has_become_another_program_does_not_run_any_more"]
fn becomes_another() {
    use std::os::unix::process::CommandExt as _;

    let wanted = std::env::var(VARIABLE).unwrap();
    let [folder, rings]: [&str; 2] = wanted
        .split(',')
        .collect::<Vec<_>>()
        .try_into()
        .expect("two words");
    let options = match rings {
        "" => patient(SLOTS).ring(RingPlace::Memfd),
        rings => options(Path::new(rings)),
    };
    let writer = Writer::create(&Path::new(folder).join("report.bin"), &options).unwrap();
    for n in 0..300 {
        writer.event(&event(writer, n)).unwrap();
    }
    let error = Command::new("cat").exec();
    panic!("no other program: {error}");
}

#[test]
fn a_process_that_has_become_another_program_does_not_run_any_more() {
    use std::io::Write as _;

    for is_file in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let rings = in_memory();
        let of_rings = if is_file { rings.path() } else { Path::new("") };
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "elsewhere::becomes_another",
                "--ignored",
                "--nocapture",
            ])
            .env(
                VARIABLE,
                format!("{},{}", folder.path().display(), of_rings.display()),
            )
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // The other program answers, so it runs.
        let mut input = process.stdin.take().unwrap();
        writeln!(input, "\n{READY}").unwrap();
        let printed = BufReader::new(process.stdout.take().unwrap()).lines();
        assert!(printed.map_while(Result::ok).any(|line| line == READY));
        let path = folder.path().join("report.bin");
        assert!(!Reader::open(&path).unwrap().header().is_running());
        if is_file {
            assert_eq!(merge(&path).unwrap(), Merged::Done);
            assert!(!Reader::open(&path).unwrap().header().is_running());
            assert_eq!(count(&path).0, 300);
        }
        drop(input);
        process.wait().unwrap();
    }
}

#[test]
fn a_copy_is_read_with_the_ring_and_does_not_take_it_away() {
    let folder = tempfile::tempdir().unwrap();
    let rings = in_memory();
    let (path, ring) = killed(folder.path(), rings.path(), 700, false);
    let copy = folder.path().join("copy.bin");
    std::fs::copy(&path, &copy).unwrap();
    assert_eq!(merge(&copy).unwrap(), Merged::Nothing);
    let (events, integrity) = count(&copy);
    assert_eq!((events, integrity.ring), (700, RingState::Read));
    assert!(ring.exists());
    // A moved capture cannot be distinguished from a copy.
    let moved = folder.path().join("moved.bin");
    std::fs::rename(&path, &moved).unwrap();
    assert_eq!(merge(&moved).unwrap(), Merged::Done);
    assert_eq!(count(&moved).0, 700);
}

#[test]
fn a_ring_that_is_gone_is_said_and_its_copy_in_the_file_is_read() {
    for events in [300, 20_000] {
        let folder = tempfile::tempdir().unwrap();
        let rings = in_memory();
        let (path, ring) = killed(folder.path(), rings.path(), events, true);
        std::fs::remove_file(ring).unwrap();
        let (found, integrity) = count(&path);
        assert_eq!(found, events);
        assert!(integrity.is_whole(), "{integrity:?}");
        assert!(matches!(integrity.ring, RingState::Gone(since) if since > Nanos(0)));
    }
    // Without a drain, nothing was written to the file.
    let folder = tempfile::tempdir().unwrap();
    let rings = in_memory();
    let (path, ring) = killed(folder.path(), rings.path(), 300, false);
    std::fs::remove_file(ring).unwrap();
    let (found, integrity) = count(&path);
    assert_eq!((found, integrity.ring), (0, RingState::Gone(Nanos(0))));
}

#[test]
fn a_sweep_takes_over_what_ended_processes_left_and_removes_what_has_no_capture() {
    let folder = tempfile::tempdir().unwrap();
    let other = tempfile::tempdir().unwrap();
    let rings = in_memory();
    let (path, ring) = killed(folder.path(), rings.path(), 300, false);
    let (gone, orphan) = killed(other.path(), rings.path(), 200, false);
    std::fs::remove_file(gone).unwrap();
    let third = tempfile::tempdir().unwrap();
    let running = third.path().join("report.bin");
    let running = Writer::create(&running, &options(rings.path())).unwrap();
    assert_eq!(sweep(rings.path(), None), 1);
    assert!(!ring.exists() && !orphan.exists());
    assert!(running.ring_path().unwrap().exists());
    assert_eq!(count(&path).0, 300);
}

#[test]
fn a_place_that_does_not_lie_in_memory_is_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.bin");
    let folders = RingPlace::Folders(vec![folder.path().to_owned(), "/nonexistent".into()]);
    let options = patient(SLOTS).ring(folders);
    let writer = Writer::create(&path, &options).unwrap();
    assert_eq!(writer.ring_path(), None);
    assert!(
        writer
            .ring_fell_back()
            .unwrap()
            .contains("does not lie in memory")
    );
    with_drain(writer, || {
        for n in 0..3000 {
            writer.event(&event(writer, n)).unwrap();
        }
    });
    let (events, integrity) = count(&path);
    assert_eq!(events, 3000);
    assert_eq!(integrity.ring, RingState::Read);
}

/// The memory is lost after the drain has queued pages, and the process ends before this is detected: the replacement
/// memory is not treated as damage.
#[test]
fn memory_that_is_lost_just_before_the_end_is_no_damage() {
    for is_lost in [true, false] {
        let (folder, rings) = (tempfile::tempdir().unwrap(), in_memory());
        let path = folder.path().join("report.bin");
        let writer = Writer::create(&path, &options(rings.path())).unwrap();
        for n in 0..500 {
            writer.event(&event(writer, n)).unwrap();
        }
        writer.stop_drain();
        writer.run_drain(None, &|_| {}, &|| {});
        let (memory, bytes) = writer.shared_memory().unwrap();
        if is_lost {
            let [recording, lost] = writer.loss_words();
            lost.store(1, Ordering::Release);
            recording.store(0, Ordering::Release);
        }
        // SAFETY: the mapping, whole, which no other thread uses.
        unsafe { memory.write_bytes(0, bytes) };
        writer.close_drain();
        let told = AtomicU32::new(0);
        writer.drain_telling(&|_| _ = told.fetch_add(1, Ordering::Relaxed));
        assert_eq!(told.into_inner(), u32::from(!is_lost));
    }
}

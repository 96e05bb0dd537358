//! The ring's memory, taken step by step in its first lap, and what happens where there is no more.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use gpumem_capture::*;
use gpumem_sys::wait::waits;

use crate::elsewhere::{count, event};
use crate::support::*;

/// The default: more than has memory from the start.
const SLOTS: u64 = 65_536;
/// Bytes before the slots, and of one slot.
const HEAD: usize = 24 * 1024;
const SLOT: usize = 64;

/// A capture with a ring in `rings`.
fn begin(folder: &Path, rings: &Path) -> (PathBuf, &'static Writer) {
    let path = folder.join("report.bin");
    let place = RingPlace::Folders(vec![rings.to_owned()]);
    let options = Options::default().ring(place).stall(AT_MOST);
    let writer = Writer::create(&path, &options).unwrap();
    (path, writer)
}

/// Blocks of a file, in bytes.
fn memory_of(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata(path).unwrap().blocks() * 512
}

/// From now on, the kernel cannot store in the second half of the slots and in the queue, as in pages of a file system
/// that is full.
fn fill(writer: &Writer) {
    let (base, bytes) = writer.shared_memory().unwrap();
    let from = HEAD + SLOTS as usize / 2 * SLOT;
    // SAFETY: memory that nobody uses yet.
    let refused = unsafe { libc::mprotect(base.add(from).cast(), bytes - from, libc::PROT_NONE) };
    assert_eq!(refused, 0);
}

fn record(writer: &Writer, events: core::ops::Range<u64>) {
    events.for_each(|n| {
        writer.event(&event(writer, n)).unwrap();
    });
}

#[test]
fn a_ring_takes_memory_as_it_is_used_and_nobody_waits_for_it() {
    let (folder, rings) = (tempfile::tempdir().unwrap(), in_memory());
    let (path, writer) = begin(folder.path(), rings.path());
    let ring = writer.ring_path().unwrap();
    assert!(memory_of(ring) < 600 << 10, "{}", memory_of(ring));
    let waited = waits();
    record(writer, 0..SLOTS);
    assert_eq!(waits() - waited, 0);
    assert!(memory_of(ring) >= 4 << 20, "{}", memory_of(ring));
    assert!(!writer.is_partly_private());
    with_drain(writer, || {});
    assert_eq!(read(&path).1.events, SLOTS);
}

#[test]
fn threads_that_need_the_same_memory_lose_nothing() {
    const THREADS: u64 = 8;
    let (folder, rings) = (tempfile::tempdir().unwrap(), in_memory());
    let (path, writer) = begin(folder.path(), rings.path());
    let share = SLOTS / THREADS;
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || record(writer, thread * share..(thread + 1) * share));
        }
    });
    with_drain(writer, || {});
    let (records, integrity) = read(&path);
    assert!(integrity.is_whole(), "{integrity:?}");
    let mut events: Vec<_> = events(&records).map(|event| event.ptr).collect();
    events.sort_unstable();
    assert!(events.into_iter().eq(0..SLOTS));
}

#[test]
fn without_more_memory_the_rest_is_the_process_s_own() {
    let (folder, rings) = (tempfile::tempdir().unwrap(), in_memory());
    let (path, writer) = begin(folder.path(), rings.path());
    let ring = writer.ring_path().unwrap().to_owned();
    fill(writer);
    record(writer, 0..SLOTS);
    assert!(writer.is_partly_private());
    assert!(!ring.exists() && writer.ring_path().is_none());
    // Several laps, which all pass through the queue.
    let drain = std::thread::spawn(|| writer.drain());
    record(writer, SLOTS..6 * SLOTS);
    writer.finish();
    assert!(writer.close(AT_MOST));
    drain.join().unwrap();
    let (events, integrity) = count(&path);
    assert!(
        integrity.is_whole() && integrity.clean_exit,
        "{integrity:?}"
    );
    assert_eq!((events, integrity.ring), (6 * SLOTS, RingState::NotNeeded));
}

/// Bytes of the head and of the slots that have memory from the start.
const FIRST: u64 = 24 * 1024 + 8_192 * 64;

/// Where another program has truncated the ring's file, its memory counts as lost, not as full.
#[test]
fn a_ring_that_was_truncated_is_not_full() {
    for of_the_queue in [false, true] {
        let (folder, rings) = (tempfile::tempdir().unwrap(), in_memory());
        let (_, writer) = begin(folder.path(), rings.path());
        let ring = writer.ring_path().unwrap();
        let mut options = std::fs::OpenOptions::new();
        options
            .write(true)
            .open(ring)
            .unwrap()
            .set_len(FIRST)
            .unwrap();
        if of_the_queue {
            record(writer, 0..100);
            writer.stop_drain();
            writer.run_drain(None, &|trouble| panic!("{trouble:?}"), &|| {});
        } else {
            (0..8_193).for_each(|n| {
                let _ = writer.event(&event(writer, n));
            });
        }
        assert_eq!(writer.ended(), Some(Ended::MemoryGone), "{of_the_queue}");
        assert!(!writer.is_partly_private());
    }
}

const VARIABLE: &str = "GPUMEM_CAPTURE_BACKING";
const READY: &str = "all is recorded";
/// More than the half that keeps its memory.
const EVENTS: u64 = SLOTS - 1000;

/// Not a test: records where memory ends, then waits to be killed. The events are in the ring, in the queue, or in the
/// file. The ring has a second name, for another process to open it later.
#[test]
#[ignore = "killed by others"]
fn victim() {
    let wanted = std::env::var(VARIABLE).unwrap();
    let (place, folder) = wanted.split_once(',').unwrap();
    let (_, writer) = begin(Path::new(folder), Path::new(folder));
    std::fs::hard_link(writer.ring_path().unwrap(), Path::new(folder).join("held")).unwrap();
    fill(writer);
    record(writer, 0..EVENTS);
    match place {
        "queue" => {
            writer.stop_drain();
            writer.run_drain(None, &|_| {}, &|| {});
        }
        "file" => with_drain(writer, || {}),
        _ => {}
    }
    assert!(writer.is_partly_private());
    println!("\n{READY}");
    loop {
        std::thread::park();
    }
}

/// What was written is read, and the ring counts as gone. What another process has held open of it has gaps that a reader
/// cannot see: it is not used.
#[test]
fn after_a_kill_the_rest_is_missing_and_the_ring_is_not_used() {
    for (place, written) in [("ring", 0), ("queue", 0), ("file", EVENTS)] {
        let folder = in_memory();
        let path = folder.path().join("report.bin");
        let mut victim = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "backing::victim", "--ignored", "--nocapture"])
            .env(VARIABLE, format!("{place},{}", folder.path().display()))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let printed = BufReader::new(victim.stdout.take().unwrap()).lines();
        assert!(printed.map_while(Result::ok).any(|line| line == READY));
        victim.kill().unwrap();
        victim.wait().unwrap();
        let before = std::fs::read(&path).unwrap();
        let held = std::fs::File::open(folder.path().join("held")).unwrap();
        let refused = merge_held(&path, held).unwrap_err();
        assert!(
            refused.source.to_string().contains("it lacks a part"),
            "{refused}"
        );
        assert_eq!(std::fs::read(&path).unwrap(), before);
        let (events, integrity) = count(&path);
        assert_eq!(events, written, "{place}: {integrity:?}");
        let is_gone = matches!(integrity.ring, RingState::Gone(_));
        assert!(is_gone && integrity.damage.is_empty(), "{integrity:?}");
    }
}

//! SIGKILL loses nothing that was recorded.

use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use gpumem_capture::*;

use crate::support::*;

const THREADS: u64 = 4;
pub const VARIABLE: &str = "GPUMEM_CAPTURE_VICTIM";

/// Not a test: the process that [`killed_at_any_moment`] kills. Four threads record endlessly; each
/// stores, after every event, how many of its events have returned. With a file `most` there, it waits before it has
/// recorded more than that number of events.
#[test]
#[ignore = "the victim of killed_at_any_moment"]
fn victim() {
    let folder = std::env::var_os(VARIABLE).unwrap();
    let folder = Path::new(&folder);
    let counts = std::fs::File::options()
        .write(true)
        .open(folder.join("counts"))
        .unwrap();
    let options = patient(4096);
    let writer = Writer::create(&folder.join("report.bin"), &options).unwrap();
    let limit = std::fs::File::open(folder.join("most")).ok();
    std::thread::spawn(|| writer.drain());
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (counts, limit) = (&counts, limit.as_ref());
            scope.spawn(move || {
                let mut most = limit.map_or(u64::MAX, |_| 0);
                for n in 0.. {
                    while n >= most {
                        std::thread::yield_now();
                        most = limit.map_or(u64::MAX, number);
                    }
                    let event = Event {
                        time: writer.now(),
                        ptr: n,
                        bytes: n % 5 + 1,
                        thread: ThreadId(thread as u32),
                        kind: if n % 2 == 1 {
                            EventKind::FREE
                        } else {
                            EventKind::ALLOC
                        },
                        device: DeviceOrdinal((thread % 2) as u8),
                        ..Event::default()
                    };
                    writer.event(&event).unwrap();
                    counts
                        .write_all_at(&(n + 1).to_le_bytes(), 8 * thread)
                        .unwrap();
                    if n % 64 == 0 {
                        let _ = writer.definition(DefKind(200), &[&[7; 1000]]);
                    }
                }
            });
        }
    });
}

fn number(file: &std::fs::File) -> u64 {
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, 0).unwrap();
    u64::from_le_bytes(bytes)
}

pub fn counts(file: &std::fs::File) -> [u64; THREADS as usize] {
    let mut bytes = [0; 8 * THREADS as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    let mut counts = [0; THREADS as usize];
    for (count, le) in counts.iter_mut().zip(bytes.chunks_exact(8)) {
        *count = u64::from_le_bytes(le.try_into().unwrap());
    }
    counts
}

#[test]
fn killed_at_any_moment() {
    for round in 0..12_u64 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("counts");
        std::fs::write(&path, [0; 8 * THREADS as usize]).unwrap();
        let told = std::fs::File::open(&path).unwrap();
        let mut victim = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "kill::victim", "--ignored"])
            .env(VARIABLE, folder.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        // From before the first page to well into them.
        let target = 1 + round * round * 701;
        while counts(&told).iter().sum::<u64>() < target {
            assert!(
                victim.try_wait().unwrap().is_none(),
                "the victim ended by itself"
            );
            std::thread::yield_now();
        }
        victim.kill().unwrap();
        victim.wait().unwrap();
        check(folder.path(), counts(&told));
    }
}

fn check(folder: &Path, told: [u64; THREADS as usize]) {
    let path = folder.join("report.bin");
    let (records, integrity) = read(&path);
    assert!(
        integrity.is_whole() && !integrity.clean_exit,
        "{integrity:?}"
    );
    assert!(integrity.in_flight <= THREADS, "{integrity:?}");
    let mut next = [0; THREADS as usize];
    for event in events(&records) {
        let next = &mut next[event.thread.0 as usize];
        assert_eq!(
            event.ptr, *next,
            "events of one thread in order, none missing"
        );
        *next += 1;
    }
    for (read, told) in next.into_iter().zip(told) {
        // One more may have been committed before the victim could report it.
        assert!(
            (told..=told + 1).contains(&read),
            "{read} read, {told} told"
        );
    }
    let mut reader = Reader::open(&path).unwrap();
    assert!(!reader.header().is_running());
    // The counters equal those of a replay at their position.
    let counters = reader.counters();
    if let Some(of) = counters.of {
        let before: Vec<_> = records
            .iter()
            .filter(|(seq, _)| *seq < of)
            .cloned()
            .collect();
        assert_eq!(counters.rows, replay(&before));
    }
    assert_eq!(
        reader.read(&mut |_| {}).unwrap(),
        integrity,
        "reading again finds the same"
    );
}

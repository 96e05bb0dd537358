//! A bounded capture keeps its size and still accounts for every record.

use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use gpumem_capture::*;

use crate::support::{Item, patient, write};

pub const RING: u32 = 1024;
const THREADS: usize = 4;
pub const VARIABLE: &str = "GPUMEM_CAPTURE_BOUNDED_VICTIM";

/// A state: the next record of each thread. Each thread's events have its count in `ptr`; a gap is
/// an error of the drain.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    pub next: [u64; THREADS],
    pub definitions: u64,
    pub wrong: u64,
}

impl Counts {
    pub fn feed(&mut self, record: Record<'_>) {
        match record {
            Record::State(_, bytes) => {
                let mut words = bytes.chunks_exact(8);
                let mut word = || u64::from_le_bytes(words.next().unwrap().try_into().unwrap());
                self.next = std::array::from_fn(|_| word());
                self.definitions = word();
                self.wrong = word();
            }
            Record::Event(_, event) => {
                let next = &mut self.next[event.thread.0 as usize];
                self.wrong += u64::from(*next != event.ptr);
                *next = event.ptr + 1;
            }
            Record::Definition(..) => self.definitions += 1,
        }
    }

    pub fn events(&self) -> u64 {
        self.next.iter().sum()
    }
}

impl StateSink for Counts {
    fn take(&mut self, record: Record<'_>) {
        self.feed(record);
    }

    fn state(&mut self, limit: usize, out: &mut Vec<u8>) {
        assert!(out.is_empty() && limit > 1 << 20);
        for word in self.next.iter().chain([&self.definitions, &self.wrong]) {
            out.extend_from_slice(&word.to_le_bytes());
        }
    }
}

/// An event that does not compress.
fn event(thread: usize, n: u64) -> Event {
    let noise = (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    Event {
        time: Nanos(n * 64),
        ptr: n,
        bytes: noise >> 16,
        aux: noise.rotate_left(31),
        thread: ThreadId(thread as u32),
        kind: EventKind::ALLOC,
        ..Event::default()
    }
}

fn options() -> Options {
    let options = patient(RING);
    let least = options.least_bounded();
    options.bounded(Some(least))
}

/// Records that many events of thread 0, and a definition after each 1,000.
pub fn record(path: &Path, count: u64) -> &'static Writer {
    let writer = Writer::create(path, &options()).unwrap();
    let drain = std::thread::spawn(|| writer.drain_bounded(&mut Counts::default()));
    for n in 0..count {
        writer.event(&event(0, n)).unwrap();
        if n % 1000 == 0 {
            writer.definition(DefKind(200), &[&[7; 3000]]).unwrap();
        }
    }
    writer.stop_drain();
    drain.join().unwrap();
    writer
}

pub struct Found {
    pub counts: Counts,
    pub integrity: Integrity,
    /// The first record that was passed on itself.
    pub first: Option<Seq>,
}

pub fn found(path: &Path) -> Found {
    let mut reader = Reader::open(path).unwrap();
    let (mut counts, mut first) = (Counts::default(), None);
    let integrity = reader
        .read(&mut |record| {
            if let Record::Event(seq, _) | Record::Definition(seq, _) = record {
                first.get_or_insert(seq);
            }
            counts.feed(record);
        })
        .unwrap();
    Found {
        counts,
        integrity,
        first,
    }
}

#[test]
fn all_records_are_in_the_state_or_follow_it_and_the_file_does_not_grow() {
    let folder = tempfile::tempdir().unwrap();
    let least = options().least_bounded();
    // Before the first state, after it, and many laps later.
    for (round, count) in [10, 60_000, 800_000].into_iter().enumerate() {
        let path = folder.path().join(format!("{round}.bin"));
        let writer = record(&path, count);
        let Found {
            counts,
            integrity,
            first,
        } = found(&path);
        let expected = Counts {
            next: [count, 0, 0, 0],
            definitions: count.div_ceil(1000),
            wrong: 0,
        };
        assert_eq!(counts, expected);
        assert!(integrity.is_whole(), "{integrity:?}");
        assert_eq!((integrity.events, writer.events_lost()), (count, 0));
        assert_eq!(integrity.definitions, expected.definitions);
        let bounded = integrity.bounded.unwrap();
        assert_eq!(first, Some(bounded.from));
        assert_eq!(bounded.from == Seq(0), round < 2, "{bounded:?}");
        let length = std::fs::metadata(&path).unwrap().len();
        assert!(length == bounded.bytes && length <= least && length > least - 3 * 4096);
        // The newest events: at least a third of the log, which has 2 MiB at under 30 bytes each.
        let kept = count - (counts.events() - events_after(&path));
        assert!(kept == count || kept > 25_000, "{kept}");
        assert_eq!(Reader::open(&path).unwrap().header().version, 1);
    }
}

fn events_after(path: &Path) -> u64 {
    let mut events = 0;
    let mut reader = Reader::open(path).unwrap();
    let mut count = |record: Record<'_>| events += u64::from(matches!(record, Record::Event(..)));
    reader.read(&mut count).unwrap();
    events
}

#[test]
fn a_file_that_is_too_small_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.bin");
    let least = options().least_bounded();
    let error = Writer::create(&path, &options().bounded(Some(least - 1)))
        .err()
        .unwrap();
    assert!(error.to_string().contains(&least.to_string()), "{error}");
    assert!(!path.exists());
}

#[test]
fn a_running_capture_is_read_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.bin");
    let writer = Writer::create(&path, &options()).unwrap();
    let drain = std::thread::spawn(|| writer.drain_bounded(&mut Counts::default()));
    let recorder = std::thread::spawn(|| {
        for n in 0..600_000 {
            writer.event(&event(0, n)).unwrap();
        }
    });
    let mut seen = Vec::new();
    while !recorder.is_finished() {
        let found = found(&path);
        // An event that was being recorded when its slot was read, while the next ones were complete when theirs were.
        let in_flight = found.integrity.in_flight;
        assert!(found.counts.wrong <= in_flight, "{:?}", found.integrity);
        assert!(found.integrity.damage.is_empty(), "{:?}", found.integrity);
        seen.push(found.counts.events());
    }
    recorder.join().unwrap();
    writer.stop_drain();
    drain.join().unwrap();
    assert!(seen.is_sorted(), "{seen:?}");
    assert_eq!(found(&path).counts.events(), 600_000);
}

/// Not a test: the process that [`killed_at_any_moment`] kills.
#[test]
#[ignore = "the victim of killed_at_any_moment"]
fn victim() {
    let folder = std::env::var_os(VARIABLE).unwrap();
    let folder = Path::new(&folder);
    let told = std::fs::File::options()
        .write(true)
        .open(folder.join("counts"))
        .unwrap();
    let writer = Writer::create(&folder.join("report.bin"), &options()).unwrap();
    std::thread::spawn(|| writer.drain_bounded(&mut Counts::default()));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let told = &told;
            scope.spawn(move || {
                for n in 0.. {
                    writer.event(&event(thread, n)).unwrap();
                    if n % 16 == 0 {
                        let place = 8 * thread as u64;
                        told.write_all_at(&(n + 1).to_le_bytes(), place).unwrap();
                    }
                    if n % 64 == 0 {
                        let item = Item::Definition(Definition::Note { text: "x".into() });
                        write(writer, &item).unwrap();
                    }
                }
            });
        }
    });
}

fn told(file: &std::fs::File) -> [u64; THREADS] {
    let mut bytes = [0; 8 * THREADS];
    file.read_exact_at(&mut bytes, 0).unwrap();
    let words = bytes.as_chunks::<8>().0;
    std::array::from_fn(|n| u64::from_le_bytes(words[n]))
}

#[test]
fn killed_at_any_moment() {
    let mut from = Vec::new();
    for round in 0..10_u64 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("counts");
        std::fs::write(&path, [0; 8 * THREADS]).unwrap();
        let counts = std::fs::File::open(&path).unwrap();
        let mut victim = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "bounded::victim", "--ignored"])
            .env(VARIABLE, folder.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        // From before the first state to some laps later.
        let target = 1 + round * round * 7_013;
        while told(&counts).iter().sum::<u64>() < target {
            assert!(
                victim.try_wait().unwrap().is_none(),
                "the victim ended by itself"
            );
            std::thread::yield_now();
        }
        victim.kill().unwrap();
        victim.wait().unwrap();
        let found = found(&folder.path().join("report.bin"));
        assert!(found.integrity.is_whole(), "{:?}", found.integrity);
        assert_eq!(found.counts.wrong, 0);
        for (read, told) in found.counts.next.into_iter().zip(told(&counts)) {
            assert!(
                (told..=told + 17).contains(&read),
                "{read} read, {told} told"
            );
        }
        from.push(found.integrity.bounded.unwrap().from);
    }
    assert!(
        from.first() == Some(&Seq(0)) && from.last() > Some(&Seq(0)),
        "{from:?}"
    );
}

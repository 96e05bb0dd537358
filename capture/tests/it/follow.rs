//! Records followed as they are written, until the process dies.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use gpumem_capture::*;

use crate::bounded::Counts;
use crate::support::*;
use crate::{bounded, kill};

/// A process that records until it is killed, and reports its progress.
struct Victim {
    process: Child,
    told: File,
    /// How many events each thread may record: who follows need not be as fast as four threads.
    most: File,
}

impl Victim {
    fn start(test: &str, variable: &str, folder: &Path) -> Self {
        let path = folder.join("counts");
        std::fs::write(&path, [0; 32]).unwrap();
        let most = File::create(folder.join("most")).unwrap();
        most.write_all_at(&[0; 8], 0).unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", test, "--ignored"]);
        command.env(variable, folder).stdout(Stdio::null());
        Self {
            process: command.spawn().unwrap(),
            told: File::open(path).unwrap(),
            most,
        }
    }

    /// Waits until it has recorded that many more events.
    fn goes_on(&mut self, events: u64) {
        let told = |file: &File| kill::counts(file).iter().sum::<u64>();
        let most = kill::counts(&self.told)
            .iter()
            .max()
            .map_or(0, |of| of + events);
        self.lets(most);
        let until = told(&self.told) + events;
        while told(&self.told) < until {
            assert!(self.process.try_wait().unwrap().is_none(), "it has ended");
            std::thread::yield_now();
        }
    }

    fn lets(&self, most: u64) {
        self.most.write_all_at(&most.to_le_bytes(), 0).unwrap();
    }

    /// Kills it while it records.
    fn kill(&mut self) {
        self.goes_on(1);
        self.lets(u64::MAX);
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn opened(path: &Path) -> Reader {
    loop {
        match Reader::open(path) {
            Ok(reader) if reader.header().is_running() => return reader,
            _ => std::thread::yield_now(),
        }
    }
}

/// Takes records, lets the process record that many events after each round, and kills it after that many rounds and
/// rounds that had records.
struct Taker<'a, T> {
    victim: &'a mut Victim,
    rounds: u64,
    with_records: usize,
    is_to_end: bool,
    more: fn(u64) -> u64,
    taken: T,
    take: fn(&mut T, Record<'_>),
    /// The number of records after each round.
    grown: Vec<usize>,
    size: fn(&T) -> usize,
}

impl<T> Follow for Taker<'_, T> {
    fn record(&mut self, record: Record<'_>) {
        (self.take)(&mut self.taken, record);
    }

    fn caught_up(&mut self) -> bool {
        self.grown.push((self.size)(&self.taken));
        let round = self.grown.len() as u64;
        self.victim.goes_on((self.more)(round));
        // A thread that was interrupted within a record holds back later records.
        let with_records = self.grown.windows(2).filter(|two| two[0] < two[1]);
        let is_over = round >= self.rounds && with_records.count() >= self.with_records;
        assert!(round < 2_000, "{:?}", self.grown);
        if is_over && self.is_to_end {
            self.victim.kill();
        }
        self.is_to_end || !is_over
    }
}

/// Few enough for the ring, and many laps of it.
fn few_and_many(round: u64) -> u64 {
    match round % 7 {
        0 => 20_000,
        n => 1 + 100 * n,
    }
}

#[test]
fn each_record_is_given_once_until_the_process_dies() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.bin");
    let mut victim = Victim::start("kill::victim", kill::VARIABLE, folder.path());
    let mut reader = opened(&path);
    let mut taker = Taker {
        victim: &mut victim,
        rounds: 30,
        with_records: 10,
        is_to_end: true,
        more: few_and_many,
        taken: Vec::new(),
        take: |taken, record| taken.push(own(record)),
        grown: Vec::new(),
        size: Vec::len,
    };
    let integrity = reader.follow(&mut taker).unwrap();
    let (followed, grown) = (taker.taken, taker.grown);
    let (records, at_the_end) = read(&path);
    assert!(
        grown.last() < Some(&followed.len()),
        "what it left is given, too"
    );
    assert!(
        records == followed,
        "{} and {}",
        records.len(),
        followed.len()
    );
    let integrity = integrity.expect("it has ended");
    assert!(integrity.is_whole(), "{integrity:?}");
    assert_eq!(
        (integrity.events, integrity.definitions, integrity.in_flight),
        (
            at_the_end.events,
            at_the_end.definitions,
            at_the_end.in_flight
        )
    );
}

/// If the follower stops while the process runs, completeness is not reported.
#[test]
fn who_follows_may_leave() {
    let folder = tempfile::tempdir().unwrap();
    let mut victim = Victim::start("kill::victim", kill::VARIABLE, folder.path());
    let mut reader = opened(&folder.path().join("report.bin"));
    let mut taker = Taker {
        victim: &mut victim,
        rounds: 5,
        with_records: 0,
        is_to_end: false,
        more: |_| 1,
        taken: 0,
        take: |taken, _| *taken += 1,
        grown: Vec::new(),
        size: |taken| *taken,
    };
    assert!(reader.follow(&mut taker).unwrap().is_none());
    assert_eq!(taker.grown.len(), 5);
}

/// A bounded capture that wraps around between two reads continues with its state; nothing is missing in between.
#[test]
fn a_bounded_capture_is_followed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.bin");
    let mut victim = Victim::start("bounded::victim", bounded::VARIABLE, folder.path());
    let mut reader = opened(&path);
    let mut taker = Taker {
        victim: &mut victim,
        rounds: 16,
        with_records: 0,
        is_to_end: true,
        more: |round| match round % 8 {
            0 => 400_000,
            _ => few_and_many(round),
        },
        taken: (Counts::default(), 0),
        take: |(counts, states), record| {
            *states += usize::from(matches!(record, Record::State(..)));
            counts.feed(record);
        },
        grown: Vec::new(),
        size: |(counts, _)| counts.events() as usize,
    };
    let integrity = reader.follow(&mut taker).unwrap();
    let (followed, states) = taker.taken;
    assert_eq!(followed.wrong, 0);
    assert!(states > 0, "it went round");
    assert_eq!(followed, bounded::found(&path).counts);
    let integrity = integrity.expect("it has ended");
    assert!(integrity.is_whole(), "{integrity:?}");
}

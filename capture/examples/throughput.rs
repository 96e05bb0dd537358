//! Prints the cost of recording and reading, and the bytes of an event on disk: `cargo run --release
//! -p gpumem-capture --example throughput [EVENTS]`
//!
//! The stream is that of a training: a step of 746 events that repeats, with addresses and stacks
//! that vary little, about 5 µs apart.

use std::path::Path;
use std::time::{Duration, Instant};

use gpumem_capture::{
    ApiId, Event, EventKind, Nanos, Options, Reader, Record, StackId, ThreadId, Writer,
};

/// A small generator, so that every run creates the same stream.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// The `n`th event of a training, at `time`.
fn event(n: u64, time: Nanos, random: &mut Random, thread: u32) -> Event {
    let place = n % 746;
    let slot = place / 2;
    // One block in 50 has another address in this step than in the previous one.
    let stray = if random.below(50) == 0 {
        random.below(64)
    } else {
        0
    };
    Event {
        time,
        ptr: 0x7f12_0000_0000 + (slot + stray) * 0x8_0200,
        bytes: (slot % 37 + 1) * 512,
        aux: 5 << 30,
        py_stack: StackId(slot as u32 % 90 + 1),
        native_stack: StackId(slot as u32 + 1),
        thread: ThreadId(thread),
        kind: if place.is_multiple_of(2) {
            EventKind::ALLOC
        } else {
            EventKind::FREE
        },
        api: ApiId(1),
        ..Event::default()
    }
}

fn with_drain<T>(writer: &'static Writer, body: impl FnOnce() -> T) -> T {
    let drain = std::thread::spawn(|| writer.drain());
    let result = body();
    writer.stop_drain();
    drain.join().expect("the drain does not panic");
    result
}

/// Median cost of one event in a ring that has room, in nanoseconds.
fn cost_of_an_event(folder: &Path, threads: u32) -> f64 {
    let path = folder.join(format!("cost{threads}.bin"));
    let writer = Writer::create(&path, &Options::default()).expect("a capture");
    // From here on `drain` empties the ring and returns.
    writer.stop_drain();
    let count = 60_000 / threads;
    let mut costs: Vec<f64> = (0..15)
        .map(|_| {
            let spent: Duration = std::thread::scope(|scope| {
                let worker = |thread| {
                    let sample = event(0, writer.now(), &mut Random(7), thread);
                    let start = Instant::now();
                    for n in 0..count {
                        let event = Event {
                            ptr: u64::from(n),
                            ..sample
                        };
                        writer.event(&event).expect("room in the ring");
                    }
                    start.elapsed()
                };
                let workers: Vec<_> = (0..threads)
                    .map(|thread| scope.spawn(move || worker(thread)))
                    .collect();
                workers
                    .into_iter()
                    .map(|w| w.join().expect("no panic"))
                    .sum()
            });
            writer.drain();
            spent.as_nanos() as f64 / f64::from(count * threads)
        })
        .collect();
    costs.sort_by(f64::total_cmp);
    costs[costs.len() / 2]
}

fn main() {
    let events: u64 = std::env::args()
        .nth(1)
        .map_or(2_000_000, |n| n.parse().expect("a number"));
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();

    for threads in [1, 2] {
        let cost = cost_of_an_event(folder, threads);
        println!("event(), {threads} thread(s), no drain: {cost:.1} ns per event and thread");
    }
    let path = folder.join("clock.bin");
    let writer = Writer::create(&path, &Options::default()).expect("a capture");
    let start = Instant::now();
    let mut sum = 0_u64;
    for _ in 0..1_000_000 {
        sum = sum.wrapping_add(writer.now().0);
    }
    assert!(sum > 0);
    println!("now(): {:.1} ns", start.elapsed().as_nanos() as f64 / 1e6);

    let path = folder.join("stream.bin");
    let writer = Writer::create(&path, &Options::default()).expect("a capture");
    let head = std::fs::metadata(&path).expect("the file").len();
    let start = Instant::now();
    let lost = with_drain(writer, || {
        let mut random = Random(42);
        let mut time = 0;
        (0..events)
            .filter(|n| {
                // Times as from now(): between 3 and 13 µs after the previous one.
                time += 3000 + random.below(10_000);
                let stamp = Nanos(time & !63);
                writer.event(&event(*n, stamp, &mut random, 4242)).is_err()
            })
            .count()
    });
    let spent = start.elapsed().as_secs_f64();
    println!(
        "written, drained and compressed: {:.2} M events/s, {lost} lost",
        events as f64 / spent / 1e6
    );
    let pages = std::fs::metadata(&path).expect("the file").len() - head;
    println!(
        "on disk: {:.2} bytes per event",
        pages as f64 / events as f64
    );

    let mut reader = Reader::open(&path).expect("a capture");
    let start = Instant::now();
    let mut bytes = 0_u64;
    let integrity = reader
        .read(&mut |record| {
            if let Record::Event(_, event) = record {
                bytes = bytes.wrapping_add(event.bytes);
            }
        })
        .expect("a readable file");
    let spent = start.elapsed().as_secs_f64();
    assert!(bytes > 0 && integrity.events + lost as u64 == events);
    println!(
        "read: {:.2} M events/s",
        integrity.events as f64 / spent / 1e6
    );
}

//! `paced CAPTURE EVENTS SECONDS`: records a number of events per second for a number of seconds,
//! from 400 lines that allocate and free. docs/measured/live.md has the cost of a reader of it.
#![allow(clippy::disallowed_methods, clippy::disallowed_macros)]

use std::path::PathBuf;
use std::time::{Duration, Instant};

use gpumem_capture::*;

const LINES: u32 = 400;
/// Blocks that are live at once.
const LIVE: u64 = 20_000;

fn define(writer: &Writer, definition: &Definition) {
    let payload = definition.payload();
    writer
        .definition(definition.kind(), &[&payload])
        .expect("room for a definition");
}

fn define_lines(writer: &Writer) {
    for id in 1..=LINES {
        define(
            writer,
            &Definition::Code {
                id: CodeId(id),
                first_line: 10 * id,
                file: format!("part{}.py", id % 20),
                name: format!("step_{id}"),
                line_table: Vec::new(),
            },
        );
        let frame = PyFrame {
            code: CodeId(id),
            offset: 0,
            entered_from_c: false,
        };
        define(
            writer,
            &Definition::PyStack {
                id: StackId(id),
                truncated: false,
                frames: vec![frame],
                modules: Vec::new(),
            },
        );
    }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok());
    let (Some(path), Some(rate), Some(seconds)) = (words.first(), number(1), number(2)) else {
        eprintln!("usage: paced CAPTURE EVENTS SECONDS");
        std::process::exit(2);
    };
    let options = Options::default();
    let writer = Writer::create(&PathBuf::from(path), &options).expect("a new capture");
    std::thread::spawn(|| writer.drain());
    define_lines(writer);
    let began = Instant::now();
    let (end, total) = (Duration::from_secs(seconds), rate * seconds);
    // A slow one sleeps after each event, so that many of them leave the CPUs to a reader.
    let pause = Duration::from_secs(1) / u32::try_from(rate.max(1)).unwrap_or(u32::MAX);
    let pause = pause.clamp(Duration::from_millis(1), Duration::from_millis(100));
    let mut n = 0;
    while n < total || began.elapsed() < end {
        let due = total.min((began.elapsed().as_secs_f64() * rate as f64) as u64);
        while n < due {
            // Each block is freed after a fixed number of later allocations.
            let (block, kind) = match (n % 2, n / 2) {
                (1, made) if made >= LIVE => (made - LIVE, EventKind::FREE),
                (0, made) => (made, EventKind::ALLOC),
                _ => {
                    n += 1;
                    continue;
                }
            };
            let line = StackId(1 + (block % u64::from(LINES)) as u32);
            let event = Event {
                time: writer.now(),
                ptr: 0x7000_0000_0000 + block * 512,
                bytes: 512 * (1 + block % 7),
                py_stack: line,
                kind,
                level: Level::TENSOR,
                ..Event::default()
            };
            writer.event(&event).expect("room in the ring");
            n += 1;
        }
        std::thread::sleep(pause);
    }
    writer.stop_drain();
    writer.finish();
}

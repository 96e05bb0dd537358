//! Records a generated training of any length, bounded or not, and compares two such captures.
//!
//! ```text
//! long_run record FILE EVENTS [BYTES|full [EVENTS_A_STACK]]   a table of bytes on disk and in memory
//! long_run compare FULL BOUNDED                               exit 1 and a line for each difference
//! ```
//! Every tensor has a distinct address; a new Python stack is defined every EVENTS_A_STACK events.

mod compare;
mod program;

use std::error::Error;
use std::path::Path;
use std::time::{Duration, Instant};

use gpumem_capture::*;
use gpumem_replay::BoundedReplay;

use compare::compare;
use program::{Program, define};

type Done = Result<(), Box<dyn Error>>;

fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// The keeper, and how long its states took.
#[derive(Default)]
struct Timed {
    kept: BoundedReplay,
    states: u32,
    longest: Duration,
    bytes: usize,
}

impl StateSink for Timed {
    fn take(&mut self, record: Record<'_>) {
        self.kept.take(record);
    }

    fn state(&mut self, limit: usize, out: &mut Vec<u8>) {
        let began = Instant::now();
        self.kept.state(limit, out);
        self.states += 1;
        self.longest = self.longest.max(began.elapsed());
        self.bytes = self.bytes.max(out.len());
    }
}

fn record(path: &Path, events: u64, bounded: Option<u64>, a_stack: u64) -> Done {
    let options = Options::default().stall(Duration::from_secs(600));
    let writer = Writer::create(path, &options.bounded(bounded))?;
    let drain = std::thread::spawn(move || match bounded {
        None => {
            writer.drain();
            Timed::default()
        }
        Some(_) => {
            let mut keeper = Timed::default();
            writer.drain_bounded(&mut keeper);
            keeper
        }
    });
    for id in 1..=50 {
        let (id, truncated) = (StackId(id), false);
        let frames = (0..20).map(|n| u64::from(id.0) << 20 | n << 4).collect();
        let stack = Definition::NativeStack {
            id,
            truncated,
            frames,
        };
        writer.definition(stack.kind(), &[&stack.payload()])?;
    }
    let began = Instant::now();
    let mut program = Program::new();
    println!("      events     bytes of the file     bytes in memory   stacks   seconds");
    for n in 0..events {
        let before = program.stack;
        let event = program.event(a_stack);
        if program.stack != before {
            define(writer, program.stack)?;
        }
        writer.event(&event)?;
        if (n + 1).is_multiple_of((events / 20).max(1)) {
            println!(
                "{:>12} {:>21} {:>19} {:>8} {:>9.1}",
                n + 1,
                std::fs::metadata(path)?.len(),
                resident(),
                program.stack,
                began.elapsed().as_secs_f64()
            );
        }
    }
    writer.stop_drain();
    let keeper = drain.join().map_err(|_| "the drain failed")?;
    println!(
        "{} states, the largest of {} bytes, the longest in {:?}",
        keeper.states, keeper.bytes, keeper.longest
    );
    writer.finish();
    if writer.events_lost() > 0 {
        return Err(format!("{} events lost", writer.events_lost()).into());
    }
    Ok(())
}

fn main() -> Done {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["record", file, events] => record(file.as_ref(), events.parse()?, None, 10_000),
        ["record", file, events, "full", a_stack] => {
            record(file.as_ref(), events.parse()?, None, a_stack.parse()?)
        }
        ["record", file, events, bytes] => {
            record(file.as_ref(), events.parse()?, Some(bytes.parse()?), 10_000)
        }
        ["record", file, events, bytes, a_stack] => {
            record(file.as_ref(), events.parse()?, Some(bytes.parse()?), a_stack.parse()?)
        }
        ["compare", full, bounded] => match compare(full.as_ref(), bounded.as_ref())? {
            true => Ok(()),
            false => Err("they differ".into()),
        },
        _ => Err("usage: long_run record FILE EVENTS [BYTES|full [EVENTS_A_STACK]] | compare FULL BOUNDED".into()),
    }
}

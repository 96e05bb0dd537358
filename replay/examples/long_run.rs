//! Records a made-up training of any length, bounded or not, and compares two such captures.
//!
//! ```text
//! long_run record FILE EVENTS [BYTES|full [EVENTS_A_STACK]]   a table of bytes on disk and in memory
//! long_run compare FULL BOUNDED                               exit 1 and a line for each difference
//! ```
//! Every tensor has an address of its own; a new Python stack is defined every EVENTS_A_STACK events.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::time::{Duration, Instant};

use gpumem_capture::*;
use gpumem_replay::{Block, Figure, Kept, Moment, Replay, StackKey};

type Done = Result<(), Box<dyn Error>>;

/// The made-up program: its live set grows and shrinks, and now and then is larger than ever.
struct Program {
    random: u64,
    live: Vec<(u64, u64)>,
    segments: Vec<(u64, u64)>,
    target: usize,
    next_ptr: u64,
    pool: u64,
    stack: u32,
    n: u64,
}

impl Program {
    fn new() -> Self {
        Self {
            random: 0x9e37_79b9_7f4a_7c15,
            live: Vec::new(),
            segments: Vec::new(),
            target: 1000,
            next_ptr: 0x7f00_0000_0000,
            pool: 0,
            stack: 0,
            n: 0,
        }
    }

    fn random(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % below
    }

    /// The next event; one stack more exists after every `a_stack` events.
    fn event(&mut self, a_stack: u64) -> Event {
        let n = self.n;
        self.n += 1;
        if n.is_multiple_of(a_stack) {
            self.stack += 1;
        }
        if n.is_multiple_of(5000) {
            let (a, b) = (self.random(30_000), self.random(1000));
            self.target = 100 + (a * b * b / 1_000_000) as usize;
        }
        let stack = StackId(1 + self.random(u64::from(self.stack).min(900)) as u32);
        let newest = StackId(self.stack);
        let of = |kind, level, ptr, bytes, py_stack| Event {
            time: Nanos(n * 1024),
            ptr,
            bytes,
            aux: 1 << 34,
            py_stack,
            native_stack: StackId(1 + n as u32 % 50),
            thread: ThreadId(77),
            kind,
            level,
            api: ApiId(1),
            ..Event::default()
        };
        let (alloc, free) = (EventKind::ALLOC, EventKind::FREE);
        if n % 700 == 699 {
            let event = of(EventKind::STEP, Level::TENSOR, 0, 0, StackId::NONE);
            return Event {
                aux: n / 700 + 1,
                ..event
            };
        }
        if n % 100_000 == 99_999 {
            let before = std::mem::replace(&mut self.pool, 0);
            self.pool = (1 + self.random(64)) << 21;
            let flags = EventFlags::STREAM_ORDERED;
            let event = of(EventKind::RESIZE, Level::PHYSICAL, 0xb0, self.pool, stack);
            return Event {
                aux: before,
                flags,
                ..event
            };
        }
        if n % 1000 == 998 {
            let grows =
                self.segments.len() < 100 || self.random(2) == 0 && self.segments.len() < 4000;
            if grows {
                self.next_ptr += 1 << 21;
                self.segments.push((self.next_ptr, 2 << 20));
                return of(alloc, Level::DRIVER, self.next_ptr, 2 << 20, stack);
            }
            let at = self.random(self.segments.len() as u64) as usize;
            let (ptr, bytes) = self.segments.swap_remove(at);
            return of(free, Level::DRIVER, ptr, bytes, StackId::NONE);
        }
        if self.live.len() < self.target {
            let bytes = (1 + self.random(4000)) * 512;
            self.next_ptr += 512;
            self.live.push((self.next_ptr, bytes));
            let py = if n.is_multiple_of(a_stack) {
                newest
            } else {
                stack
            };
            of(alloc, Level::TENSOR, self.next_ptr, bytes, py)
        } else {
            let at = self.random(self.live.len() as u64) as usize;
            let (ptr, bytes) = self.live.swap_remove(at);
            of(free, Level::TENSOR, ptr, bytes, StackId::NONE)
        }
    }
}

/// Defines a stack of 12 frames, one of them of a code object of its own.
fn define(writer: &Writer, id: u32) -> Result<(), Lost> {
    let code = Definition::Code {
        id: CodeId(id),
        first_line: id % 5000,
        file: format!("/home/me/project/module_{}.py", id % 300),
        name: format!("function_{id}"),
        line_table: vec![(id % 251) as u8; 40],
    };
    let frame = |n: u32| PyFrame {
        code: CodeId(id.saturating_sub(n * 7).max(1)),
        offset: (n * 2) as i32,
        entered_from_c: n == 11,
    };
    let stack = Definition::PyStack {
        id: StackId(id),
        truncated: false,
        frames: (0..12).map(frame).collect(),
    };
    for definition in [code, stack] {
        writer.definition(definition.kind(), &[&definition.payload()])?;
    }
    Ok(())
}

fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// The keeper, and how long its states took.
#[derive(Default)]
struct Timed {
    kept: Kept,
    states: u32,
    longest: Duration,
    bytes: usize,
}

impl Keeper for Timed {
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

fn read(path: &Path, until: Option<Seq>) -> Result<(Replay, Integrity), Box<dyn Error>> {
    let mut replay = Replay::new(Moment::Peak);
    let integrity = Reader::open(path)?.read(&mut |record| {
        let is_later = match record {
            Record::Event(seq, _) => until.is_some_and(|until| seq > until),
            Record::Definition(..) | Record::State(..) => false,
        };
        if !is_later {
            replay.feed(record);
        }
    })?;
    Ok((replay, integrity))
}

fn sorted(mut figures: Vec<(StackKey, Figure)>) -> Vec<(StackKey, Figure)> {
    figures.sort_unstable_by_key(|(key, _)| *key);
    figures
}

fn blocks(replay: &Replay, at: (DeviceOrdinal, Level)) -> BTreeMap<u64, (u64, StackKey, Seq)> {
    let of = |(ptr, block): (u64, Block)| (ptr, (block.bytes, replay.stacks(block.key), block.seq));
    replay
        .rows
        .get(&at)
        .map(|row| row.live_blocks().map(of).collect())
        .unwrap_or_default()
}

fn compare(full: &Path, bounded: &Path) -> Result<bool, Box<dyn Error>> {
    let ((one, whole), (two, found)) = (read(full, None)?, read(bounded, None)?);
    let mut same = whole.is_whole() && found.is_whole();
    let mut check = |what: String, equal: bool| {
        println!("{} {what}", if equal { "equal " } else { "DIFFER" });
        same &= equal;
    };
    let from = found.bounded.map(|bounded| bounded.from);
    check(
        format!("{} events; history from {from:?}", one.events),
        one.events == two.events,
    );
    check(
        format!("steps: {}", one.course.steps),
        one.course.steps == two.course.steps,
    );
    let places: Vec<_> = one.rows.keys().copied().collect();
    check(
        format!("levels: {}", places.len()),
        places.iter().eq(two.rows.keys()),
    );
    for (device, level) in places {
        let row = |replay: &Replay| {
            let row = &replay.rows[&(device, level)];
            (row.counters, row.peak, row.anomalies, row.live_at_moment)
        };
        check(
            format!("{level}: {:?}", row(&one).0),
            row(&one) == row(&two),
        );
        for moment in [Moment::Peak, Moment::End] {
            let of = |replay: &Replay| sorted(replay.figures(device, level, moment));
            check(
                format!("{level} {moment:?}: {} stacks", of(&one).len()),
                of(&one) == of(&two),
            );
        }
        let of = |replay: &Replay| sorted(replay.figures_at_device_peak(device, level));
        check(
            format!("{level} at the device's peak: {} stacks", of(&one).len()),
            of(&one) == of(&two),
        );
        let live = |replay: &Replay| blocks(replay, (device, level));
        check(
            format!("{level} live blocks: {}", live(&one).len()),
            live(&one) == live(&two),
        );
        let totals = |replay: &Replay| {
            let totals = replay.rows[&(device, level)].totals();
            totals
                .map(|(key, total)| (replay.stacks(key), total))
                .collect::<BTreeMap<_, _>>()
        };
        let (all, kept) = (totals(&one), totals(&two));
        let sum = |of: &BTreeMap<StackKey, gpumem_replay::Total>| {
            of.values()
                .fold(gpumem_replay::Total::default(), |mut sum, total| {
                    sum += *total;
                    sum
                })
        };
        check(
            format!("{level} totals: {:?}", sum(&all)),
            sum(&all) == sum(&kept),
        );
        let told = kept
            .iter()
            .filter(|(key, total)| all.get(*key) == Some(*total))
            .count();
        println!(
            "       {level} totals of {told} of {} stacks are those of the full capture",
            all.len()
        );
    }
    for (device, peak) in &one.devices {
        let Some((seq, _)) = peak.moment else {
            continue;
        };
        check(
            format!("peak of device {}: {seq:?}", device.0),
            two.devices[device].moment == peak.moment,
        );
        let Some((kept, _)) = two.at_peak_of(*device) else {
            println!("       the peak is in the log");
            continue;
        };
        let (then, _) = read(full, Some(seq))?;
        for level in [Level::TENSOR, Level::DRIVER, Level::PHYSICAL] {
            let (a, b) = (
                blocks(&then, (*device, level)),
                blocks(&kept, (*device, level)),
            );
            check(format!("{level} blocks at the peak: {}", a.len()), a == b);
            let parts = |replay: &Replay| {
                let row = replay.rows.get(&(*device, level));
                let holdings = row.iter().flat_map(|row| row.holdings());
                let part =
                    |(key, bytes): &(gpumem_replay::KeyId, u64)| (replay.stacks(*key), *bytes);
                holdings
                    .map(|(kind, ptr, holding)| {
                        (kind, ptr, holding.parts().iter().map(part).collect())
                    })
                    .collect::<Vec<(_, _, Vec<_>)>>()
            };
            check(
                format!("{level} holdings at the peak: {}", parts(&then).len()),
                parts(&then) == parts(&kept),
            );
        }
    }
    println!("       let go of: {:?}", two.let_go);
    Ok(same)
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

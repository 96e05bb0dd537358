//! All that is shown of one moment.

use std::sync::Arc;

use gpumem_analyzer::account::{When, limit_of, when_of};
use gpumem_analyzer::ranks::{Coordinates, Course};
use gpumem_analyzer::replay::{At, Levels, Reading, Replay};
use gpumem_analyzer::views::{
    ByStack, CategoryRow, Lines, Modules, Select, categories, level_or_default,
};
use gpumem_capture::{CounterValues, DeviceOrdinal, Header, Level, Nanos, ProcessKey, Seq};

use crate::ask::{Ask, By, Moment};
use crate::growth::StepGrowth;

/// What has become of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// What was recorded before is being read: so many bytes of so many.
    CatchingUp(u64, u64),
    /// It runs, and all that it has recorded has been read.
    Running,
    /// It has ended by itself, then.
    Ended(Nanos),
    /// It was killed, or has crashed: its last event was then.
    Killed(Nanos),
    /// Reading has stopped, for this reason.
    Stopped(String),
}

/// A device, as of a frame.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceNow {
    /// Which.
    pub device: DeviceOrdinal,
    /// Its name and bytes, where the capture has them.
    pub name: Option<String>,
    /// Bytes of the card, or what a limit leaves of them.
    pub total: Option<u64>,
    /// What it holds.
    pub now: Levels,
    /// What it held at its peak.
    pub at_peak: Levels,
    /// When that was.
    pub peak: Option<(Seq, Nanos)>,
    /// What PyTorch's allocator held most.
    pub reserved_peak: u64,
    /// NVML's last answer.
    pub reading: Option<Reading>,
    /// The one to believe: see [`gpumem_analyzer::replay::Readings::best`].
    pub best_reading: Option<Reading>,
    /// Its UUID, where the capture has it.
    pub uuid: Option<String>,
    /// The counters of each level that had an event.
    pub counters: Vec<(Level, CounterValues)>,
    /// Bytes by which a step adds to what is live: see [`StepGrowth`](crate::StepGrowth).
    pub step_growth: Option<i64>,
    /// Refusals after which PyTorch's allocator got the memory all the same.
    pub retries: u64,
}

/// The process, as its capture describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// Its host.
    pub host: Option<String>,
    /// The names of its job.
    pub job: Option<String>,
    /// Its rank, of how many, and its number on its node.
    pub rank: Option<u64>,
    /// Ranks of the job.
    pub world_size: Option<u64>,
    /// Its number on its node.
    pub local_rank: Option<u64>,
    /// Where its peers stand in the job's parallelism.
    pub peers: Option<Coordinates>,
    /// The driver's version.
    pub driver_version: Option<String>,
}

/// A failure, in the words that a screen has room for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// At which event.
    pub seq: Seq,
    /// When.
    pub time: Nanos,
    /// On which device.
    pub device: DeviceOrdinal,
    /// Bytes that were asked for.
    pub bytes: u64,
    /// Whether the program was told of it. Else the framework's allocator has answered it by itself.
    pub is_exception: bool,
}

/// The table's rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rows {
    /// Lines of code.
    Lines(Lines),
    /// What tensors are for.
    Categories(Vec<CategoryRow>),
    /// Modules.
    Modules(Modules),
}

/// What is known at one event.
#[derive(Clone, Debug)]
pub struct Frame {
    /// The number of the newest event.
    pub seq: Seq,
    /// Its time.
    pub time: Nanos,
    /// Events so far.
    pub events: u64,
    /// The program.
    pub state: State,
    /// What ran.
    pub command: Option<String>,
    /// Its process.
    pub pid: u32,
    /// What else the capture says of it.
    pub process: Process,
    /// Wall clock at time 0: ns since 1970-01-01 UTC.
    pub started_unix_ns: u64,
    /// Events that the recorder lost; `None`: that is not known before the program has ended.
    pub lost: Option<u64>,
    /// Each device that had an event.
    pub devices: Vec<DeviceNow>,
    /// What each held over time.
    pub course: Vec<(DeviceOrdinal, Course)>,
    /// Steps of a training that have ended.
    pub steps: u64,
    /// What the program is at.
    pub at: Option<When>,
    /// How many allocations failed for want of memory.
    pub failure_count: u64,
    /// The newest of them.
    pub failures: Vec<Failure>,
    /// What the table is of.
    pub ask: Ask,
    /// The table.
    pub table: Arc<Table>,
}

/// Failures that a frame has room for.
const FAILURES: usize = 8;

/// Who owns the memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// As of this event. While a program runs it may be some hundred milliseconds older than the frame.
    pub seq: Seq,
    /// The level.
    pub level: Level,
    /// The rows, the largest first.
    pub rows: Rows,
    /// The level's own figure, to which the rows sum.
    pub total: u64,
}

/// The rows that are asked for.
pub(crate) fn table(replay: &Replay, ask: Ask) -> Table {
    let level = level_or_default(ask.level, replay);
    let select = Select {
        device: ask.device,
        ..Select::default()
    };
    let moment = match ask.moment {
        Moment::Now => At::End,
        Moment::Peak => At::Peak,
    };
    let held = ByStack::at(replay, level, moment, &select);
    let total = held.devices.iter().filter_map(|on| on.total).sum();
    let rows = match ask.by {
        By::Line => Rows::Lines(Lines::of(replay, &held)),
        By::Category => Rows::Categories(categories(&held)),
        By::Module => Rows::Modules(Modules::of(replay, &held, |_| true)),
    };
    Table {
        seq: replay.last_seq,
        level,
        rows,
        total,
    }
}

/// What is known of each device.
pub(crate) fn devices(replay: &Replay, growth: &StepGrowth) -> Vec<DeviceNow> {
    let real = |(device, _): &(&DeviceOrdinal, _)| **device != DeviceOrdinal::NONE;
    let devices = replay.devices.iter().filter(real);
    devices
        .map(|(device, on)| {
            let named = replay.names.devices.get(device);
            DeviceNow {
                device: *device,
                name: named.map(|named| named.name.clone()),
                total: limit_of(replay, *device).or(named.map(|named| named.total_bytes)),
                now: on.now,
                at_peak: on.at_peak,
                peak: on.moment,
                reserved_peak: on.reserved_peak,
                reading: on.readings.last,
                best_reading: on.readings.best(),
                uuid: named.and_then(|named| named.uuid_text()),
                counters: counters(replay, *device),
                step_growth: growth.of(*device),
                retries: replay.failures.answered_on(*device),
            }
        })
        .collect()
}

fn counters(replay: &Replay, device: DeviceOrdinal) -> Vec<(Level, CounterValues)> {
    let levels = [Level::TENSOR, Level::DRIVER, Level::HOST, Level::PHYSICAL];
    let known = |level: &Level| replay.levels.contains_key(&(device, *level));
    let of = |level| (level, replay.counters(device, level));
    levels.into_iter().filter(known).map(of).collect()
}

/// What the capture says of the process.
pub(crate) fn process(replay: &Replay) -> Process {
    let fact = |key: &str| replay.names.fact(key).map(str::to_owned);
    let number = |key: &str| replay.names.fact(key)?.parse().ok();
    Process {
        host: fact(ProcessKey::HOST),
        job: fact(ProcessKey::JOB),
        rank: number(ProcessKey::RANK),
        world_size: number(ProcessKey::WORLD_SIZE),
        local_rank: number(ProcessKey::LOCAL_RANK),
        peers: Coordinates::of(replay).map(|of| of.of_peers()),
        driver_version: fact(ProcessKey::DRIVER_VERSION),
    }
}

/// The newest failures, the newest first.
pub(crate) fn failures(replay: &Replay) -> Vec<Failure> {
    let all = replay.failures.all();
    let newest = all.iter().rev().take(FAILURES);
    newest
        .map(|(_, of)| Failure {
            seq: of.seq,
            time: of.event.time,
            device: of.event.device,
            bytes: of.event.bytes,
            is_exception: of.is_exception(),
        })
        .collect()
}

/// How the program has ended, as its capture says.
pub(crate) fn ending(header: &Header, last: Nanos) -> State {
    match header.ended {
        Some(at) => State::Ended(at),
        None => State::Killed(last),
    }
}

/// What the program is at.
pub(crate) fn at(replay: &Replay) -> Option<When> {
    (replay.events > 0).then(|| when_of(replay, replay.span_context()))
}

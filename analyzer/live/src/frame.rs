//! All that is shown of one moment.

use std::sync::Arc;

use gpumem_analyzer::account::{When, limit_of, when_of};
use gpumem_analyzer::ranks::Course;
use gpumem_analyzer::replay::{At, Levels, Reading, Replay};
use gpumem_analyzer::views::{
    ByStack, CategoryRow, Lines, Modules, Select, categories, level_or_default,
};
use gpumem_capture::{CounterValues, DeviceOrdinal, Header, Level, Nanos, Seq};

use crate::ask::{Ask, By, Moment};
use crate::baseline::Baselines;
use crate::growth::StepGrowth;
use crate::order::{Measure, measure};
use crate::pace::Pace;
use crate::process::Process;
use crate::steps::Steps;

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

/// When a device held most of a level, so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LevelPeak {
    /// The device.
    pub device: DeviceOrdinal,
    /// The level.
    pub level: Level,
    /// How much.
    pub bytes: u64,
    /// The first event after which it held so much.
    pub seq: Seq,
    /// Its time.
    pub time: Nanos,
}

/// A failure, in the words that a screen has room for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Its number, from 1.
    pub number: u64,
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
    /// When its capture was opened: ns since 1970-01-01 UTC.
    pub started_wall_ns: u64,
    /// What else the capture says of it.
    pub process: Process,
    /// Events that the recorder lost; `None`: that is not known before the program has ended.
    pub lost: Option<u64>,
    /// Each device that had an event.
    pub devices: Vec<DeviceNow>,
    /// The peaks so far.
    pub peaks: Vec<LevelPeak>,
    /// What each held over time. Empty in a frame of the past.
    pub course: Vec<(DeviceOrdinal, Course)>,
    /// Steps of a training that have ended.
    pub steps: u64,
    /// How fast the newest of them were.
    pub pace: Option<Pace>,
    /// What the program is at.
    pub at: Option<When>,
    /// How many allocations failed for want of memory.
    pub failure_count: u64,
    /// Those that the capture keeps in full, the newest first.
    pub failures: Vec<Failure>,
    /// What the table is of.
    pub ask: Ask,
    /// The table.
    pub table: Arc<Table>,
}

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
    /// The figure by which they are to be put in order, if it is another one.
    pub measure: Option<Measure>,
}

/// The rows that are asked for, of a capture that is followed.
pub(crate) fn table(replay: &Replay, ask: Ask, baselines: &Baselines) -> Table {
    let moment = match ask.moment {
        Moment::Now => At::End,
        Moment::Peak => At::Peak,
    };
    table_at(
        replay,
        ask,
        moment,
        (replay.last_seq, replay.last),
        baselines,
    )
}

/// The rows of a moment that a capture was read for, which is that after event `seq`.
pub(crate) fn table_at(
    replay: &Replay,
    ask: Ask,
    moment: At,
    (seq, time): (Seq, Nanos),
    baselines: &Baselines,
) -> Table {
    let level = level_or_default(ask.level, replay);
    let select = Select {
        device: ask.device,
        ..Select::default()
    };
    let held = ByStack::at(replay, level, moment, &select);
    let total = held.devices.iter().filter_map(|on| on.total).sum();
    let rows = match ask.by {
        By::Line => Rows::Lines(Lines::of(replay, &held)),
        By::Category => Rows::Categories(categories(&held)),
        By::Module => Rows::Modules(Modules::of(replay, &held, |_| true)),
    };
    Table {
        seq,
        level,
        rows,
        total,
        measure: measure(replay, ask, (level, moment), time, baselines),
    }
}

/// What is known of the program at one event.
pub(crate) struct Figures {
    pub(crate) seq: Seq,
    pub(crate) time: Nanos,
    events: u64,
    devices: Vec<DeviceNow>,
    peaks: Vec<LevelPeak>,
    steps: u64,
    pace: Option<Pace>,
    at: Option<When>,
    failure_count: u64,
    failures: Vec<Failure>,
}

impl Figures {
    /// Those of the event that was read last.
    pub(crate) fn of(replay: &Replay, steps: &Steps) -> Self {
        Self {
            seq: replay.last_seq,
            time: replay.last,
            events: replay.events,
            devices: devices(replay, &steps.growth),
            peaks: peaks(replay),
            steps: replay.spans.steps,
            pace: steps.ends.pace(),
            at: (replay.events > 0).then(|| when_of(replay, replay.span_context())),
            failure_count: replay.failures.count(),
            failures: failures(replay),
        }
    }

    /// A frame of them.
    pub(crate) fn frame(
        &self,
        (replay, header): (&Replay, &Header),
        state: State,
        course: Vec<(DeviceOrdinal, Course)>,
        (ask, table): (Ask, Arc<Table>),
    ) -> Frame {
        Frame {
            seq: self.seq,
            time: self.time,
            events: self.events,
            state,
            command: replay.names.command().map(str::to_owned),
            pid: header.pid,
            started_wall_ns: header.started_wall_ns,
            process: Process::of(replay),
            lost: None,
            devices: self.devices.clone(),
            peaks: self.peaks.clone(),
            course,
            steps: self.steps,
            pace: self.pace,
            at: self.at.clone(),
            failure_count: self.failure_count,
            failures: self.failures.clone(),
            ask,
            table,
        }
    }
}

/// What is known of each device.
fn devices(replay: &Replay, growth: &StepGrowth) -> Vec<DeviceNow> {
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

/// The peaks of all levels that held anything.
fn peaks(replay: &Replay) -> Vec<LevelPeak> {
    let levels = replay.levels.iter();
    let held = levels.filter(|(_, state)| state.counters.peak > 0);
    held.map(|((device, level), state)| LevelPeak {
        device: *device,
        level: *level,
        bytes: state.counters.peak,
        seq: state.peak.0,
        time: state.peak.1,
    })
    .collect()
}

/// Failures, the newest first.
fn failures(replay: &Replay) -> Vec<Failure> {
    let all = replay.failures.all();
    all.iter()
        .rev()
        .map(|(number, of)| Failure {
            number: *number,
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

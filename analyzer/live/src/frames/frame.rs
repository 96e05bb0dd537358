//! Everything that is shown for one point in time.

use std::sync::Arc;

use gpumem_analyzer::account::{When, when_of};
use gpumem_analyzer::ranks::{Course, RankRow};
use gpumem_analyzer::replay::{At, Replay};
use gpumem_analyzer::views::{
    ByStack, CategoryRow, Lines, ModuleRow, Select, categories, level_or_default, modules,
};
use gpumem_capture::{CounterValues, DeviceOrdinal, Header, Level, Nanos, Seq};

use super::ask::{Ask, By, Moment};
use super::baseline::Baselines;
use super::device::{DeviceNow, counters, devices};
use super::order::{Measure, measure};
use super::pace::Pace;
use super::process::Process;
use super::steps::Steps;

/// The state of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Earlier records are being read: bytes read, of bytes in all.
    CatchingUp(u64, u64),
    /// It runs, and everything recorded has been read.
    Running,
    /// It ended by itself at this time.
    Ended(Nanos),
    /// It was killed or crashed; this is the time of its last event.
    Killed(Nanos),
    /// Reading stopped, for this reason.
    Stopped(String),
}

impl State {
    /// Whether nothing changes any more.
    pub fn is_final(&self) -> bool {
        !matches!(self, Self::CatchingUp(..) | Self::Running)
    }
}

/// The peak so far of a level on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LevelPeak {
    /// The device.
    pub device: DeviceOrdinal,
    /// The level.
    pub level: Level,
    /// Its bytes.
    pub bytes: u64,
    /// The first event after which it held this much.
    pub seq: Seq,
    /// Its time.
    pub time: Nanos,
}

/// A failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Its number, from 1.
    pub number: u64,
    /// Its event.
    pub seq: Seq,
    /// Its time.
    pub time: Nanos,
    /// Its device.
    pub device: DeviceOrdinal,
    /// The requested bytes.
    pub bytes: u64,
    /// Whether the program saw it. If not, the framework's allocator resolved it.
    pub is_exception: bool,
}

/// The table's rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rows {
    /// Lines of code.
    Lines(Lines),
    /// Categories of tensors.
    Categories(Vec<CategoryRow>),
    /// Modules.
    Modules(Vec<ModuleRow>),
}

/// The state at one event.
#[derive(Clone, Debug)]
pub struct Frame {
    /// The number of the newest event.
    pub seq: Seq,
    /// Its time.
    pub time: Nanos,
    /// Events so far.
    pub events: u64,
    /// The state of the program.
    pub state: State,
    /// Its command.
    pub command: Option<String>,
    /// Its process id.
    pub pid: u32,
    /// When its capture was opened: ns since 1970-01-01 UTC.
    pub started_wall_ns: u64,
    /// Its row among the ranks of its job. While a program runs it may be as old as the table.
    pub row: Arc<RankRow>,
    /// Other facts of the process in the capture.
    pub process: Process,
    /// Whether its figures are exact; `None` if that is not known.
    pub exact: Option<bool>,
    /// Events that the recorder lost; `None` before the program has ended.
    pub lost: Option<u64>,
    /// Each device that had an event.
    pub devices: Vec<DeviceNow>,
    /// Pinned memory of no device, if there was any.
    pub host: Option<CounterValues>,
    /// The peaks so far.
    pub peaks: Vec<LevelPeak>,
    /// Memory over time of each device. Empty in a frame of the past.
    pub course: Vec<(DeviceOrdinal, Course)>,
    /// Steps of a training that have ended.
    pub steps: u64,
    /// The speed of the newest steps.
    pub pace: Option<Pace>,
    /// The step, phase and range that the program is in.
    pub at: Option<When>,
    /// The number of allocations that failed with an out-of-memory error.
    pub failure_count: u64,
    /// Those that the capture keeps in full, the newest first.
    pub failures: Vec<Failure>,
    /// The request for the table.
    pub ask: Ask,
    /// The table.
    pub table: Arc<Table>,
}

impl Frame {
    /// The rank, if a launcher set one.
    pub fn rank(&self) -> Option<u64> {
        self.row.is_numbered.then_some(self.row.rank)
    }

    /// The GPU on which the process has held most.
    pub fn main_device(&self) -> Option<&DeviceNow> {
        let mut devices = self.devices.iter();
        devices.find(|on| Some(on.device.0) == self.row.device)
    }
}

/// The owners of the memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// The table's event. While a program runs it may be some hundred milliseconds older than the frame.
    pub seq: Seq,
    /// The level.
    pub level: Level,
    /// The rows, the largest first.
    pub rows: Rows,
    /// The level's own figure, which is the sum of the rows.
    pub total: u64,
    /// The figure that sorts the rows, if it is another one than their bytes.
    pub measure: Option<Measure>,
}

impl Table {
    /// A table without rows.
    pub(crate) fn none(seq: Seq) -> Self {
        Self {
            seq,
            level: Level::DRIVER,
            rows: Rows::Categories(Vec::new()),
            total: 0,
            measure: None,
        }
    }
}

/// The requested rows, of a capture that is followed.
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

/// The rows at a past point in time, which is the one after event `seq`.
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
        By::Module => Rows::Modules(modules(replay, &held)),
    };
    Table {
        seq,
        level,
        rows,
        total,
        measure: measure(replay, ask, (level, moment), time, baselines),
    }
}

/// The figures of the program at one event.
pub(crate) struct Figures {
    pub(crate) seq: Seq,
    pub(crate) time: Nanos,
    events: u64,
    devices: Vec<DeviceNow>,
    host: Option<CounterValues>,
    peaks: Vec<LevelPeak>,
    steps: u64,
    pace: Option<Pace>,
    at: Option<When>,
    failure_count: u64,
    failures: Vec<Failure>,
}

impl Figures {
    /// The figures at the newest event that was read.
    pub(crate) fn of(replay: &Replay, steps: &Steps) -> Self {
        Self {
            seq: replay.last_seq,
            time: replay.last,
            events: replay.events,
            devices: devices(replay, &steps.growth),
            host: counters(replay, DeviceOrdinal::NONE)
                .pop()
                .map(|(_, of)| of),
            peaks: peaks(replay),
            steps: replay.spans.steps,
            pace: steps.ends.pace(),
            at: (replay.events > 0).then(|| when_of(replay, replay.span_context())),
            failure_count: replay.failures.count(),
            failures: failures(replay),
        }
    }

    /// A frame with these figures.
    pub(crate) fn frame(
        &self,
        (replay, header, row): (&Replay, &Header, Arc<RankRow>),
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
            row,
            process: Process::of(replay),
            exact: None,
            lost: None,
            devices: self.devices.clone(),
            host: self.host,
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

/// How the program ended, according to its capture.
pub(crate) fn ending(header: &Header, last: Nanos) -> State {
    match header.ended {
        Some(at) => State::Ended(at),
        None => State::Killed(last),
    }
}

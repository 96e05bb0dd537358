//! One rank of a folder, followed only for its row: it has no table and no memory over time.

use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use gpumem_analyzer::ranks::Coordinates;
use gpumem_analyzer::replay::{Query, Replay};
use gpumem_capture::{
    DeviceOrdinal, Follow, Header, Level, OpenError, ProcessKey, Progress, Reader, Record,
};

use crate::frame::{self, State};
use crate::place::{OTHER, Place};

/// The number of records between two readings of the clock.
const RECORDS: u32 = 4096;

/// The row of a rank, as of its newest event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankNow {
    /// Its rank; `None` if no launcher set one.
    pub rank: Option<u64>,
    /// Its local rank.
    pub local_rank: Option<u64>,
    /// The machine's name.
    pub host: Option<String>,
    /// Its process id.
    pub pid: u32,
    /// Its position in the job's mesh.
    pub coordinates: Coordinates,
    /// The state of the program.
    pub state: State,
    /// The GPU on which it has held most.
    pub device: Option<DeviceOrdinal>,
    /// Bytes of that card.
    pub card: Option<u64>,
    /// Tensors that are live.
    pub tensors: u64,
    /// Their peak so far.
    pub tensor_peak: u64,
    /// What PyTorch's allocator holds, if it reports it.
    pub reserved: Option<u64>,
    /// Its peak so far.
    pub reserved_peak: u64,
    /// The known memory of the process on that GPU.
    pub process: u64,
    /// Its peak so far.
    pub process_peak: u64,
    /// NVML's newest figure for the process.
    pub nvml: Option<u64>,
    /// Steps that have ended.
    pub steps: u64,
    /// Allocations that failed with an out-of-memory error.
    pub failures: u64,
    /// Events so far.
    pub events: u64,
}

impl RankNow {
    fn of(header: &Header, replay: &Replay, state: State) -> Self {
        let number = |key: &str| replay.names.fact(key)?.parse().ok();
        let real = |of: &&DeviceOrdinal| **of != DeviceOrdinal::NONE;
        let held = |of: &DeviceOrdinal| process(replay, *of, |of| of.peak);
        // If several are equal, the one with the lowest number.
        let devices = replay.devices.keys().filter(real).rev();
        let device = devices.copied().max_by_key(held);
        let on = device.and_then(|device| replay.devices.get(&device));
        let tensors = device.map(|device| replay.counters(device, Level::TENSOR));
        let named = device.and_then(|device| replay.names.devices.get(&device));
        Self {
            rank: number(ProcessKey::RANK),
            local_rank: number(ProcessKey::LOCAL_RANK),
            host: replay.names.fact(ProcessKey::HOST).map(str::to_owned),
            pid: header.pid,
            coordinates: Coordinates::of(replay).unwrap_or_default(),
            state,
            device,
            card: named.map(|named| named.total_bytes),
            tensors: tensors.map_or(0, |of| of.live),
            tensor_peak: tensors.map_or(0, |of| of.peak),
            reserved: on.and_then(|on| on.now.reserved),
            reserved_peak: on.map_or(0, |on| on.reserved_peak),
            process: device.map_or(0, |device| process(replay, device, |of| of.live)),
            process_peak: device.map_or(0, |device| process(replay, device, |of| of.peak)),
            nvml: on.and_then(|on| on.readings.last?.process),
            steps: replay.spans.steps,
            failures: replay.failures.count(),
            events: replay.events,
        }
    }
}

/// The memory of a process on a device: the physical memory, or that of CUDA or PyTorch if the former is unknown.
fn process(
    replay: &Replay,
    device: DeviceOrdinal,
    of: fn(&gpumem_capture::CounterValues) -> u64,
) -> u64 {
    let at = |level| of(&replay.counters(device, level));
    match at(Level::PHYSICAL) {
        0 => at(Level::DRIVER).max(at(Level::TENSOR)),
        physical => physical,
    }
}

struct On {
    now: Option<Arc<RankNow>>,
    is_over: bool,
}

struct Shared {
    on: Mutex<On>,
    over: Condvar,
}

impl Shared {
    fn on(&self) -> MutexGuard<'_, On> {
        self.on.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A rank's capture that is followed on its own thread. When the process ends, the replay is dropped and only the row
/// is kept.
pub(crate) struct RankWatch {
    shared: Arc<Shared>,
}

impl RankWatch {
    /// Follows the capture at `path`; a row is made after every `every`.
    pub(crate) fn start(path: &Path, every: Duration) -> Result<Self, OpenError> {
        let place = Place::of(path);
        let mut reader = Reader::open(path)?;
        // Many ranks are read at once, so no additional threads decode.
        reader.decode_on(0);
        let on = On {
            now: None,
            is_over: false,
        };
        let shared = Arc::new(Shared {
            on: Mutex::new(on),
            over: Condvar::new(),
        });
        let of_thread = shared.clone();
        let path = path.to_owned();
        std::thread::spawn(move || follow(reader, &path, place, of_thread, every));
        Ok(Self { shared })
    }

    pub(crate) fn now(&self) -> Option<Arc<RankNow>> {
        self.shared.on().now.clone()
    }
}

impl Drop for RankWatch {
    fn drop(&mut self) {
        // The thread ends later by itself: it may be reading.
        self.shared.on().is_over = true;
        self.shared.over.notify_all();
    }
}

fn follow(mut reader: Reader, path: &Path, place: Place, shared: Arc<Shared>, every: Duration) {
    let mut rank = Rank {
        header: reader.header().clone(),
        progress: reader.progress(),
        replay: Replay::new(Query::default()),
        place,
        shared,
        every,
        since: 0,
        made: Instant::now(),
        events: None,
        changed: None,
        is_left: false,
    };
    let last = match reader.follow(&mut rank) {
        Ok(Some(_)) => match Reader::open(path) {
            Ok(again) if again.header().nonce == rank.header.nonce => {
                frame::ending(again.header(), rank.replay.last)
            }
            _ => {
                let changed = rank.place.changed(rank.progress.position());
                State::Stopped(changed.unwrap_or(OTHER).into())
            }
        },
        Ok(None) => match rank.changed.take() {
            Some(why) => State::Stopped(why.into()),
            None => return,
        },
        Err(error) => State::Stopped(
            rank.place
                .changed(rank.progress.position())
                .map_or(error.to_string(), str::to_owned),
        ),
    };
    rank.publish(last);
}

struct Rank {
    header: Header,
    progress: Progress,
    replay: Replay,
    place: Place,
    shared: Arc<Shared>,
    every: Duration,
    since: u32,
    made: Instant,
    /// The number of events of the newest row while the process ran.
    events: Option<u64>,
    /// What happened to the file.
    changed: Option<&'static str>,
    /// Set when the owner is gone: further records are ignored.
    is_left: bool,
}

impl Rank {
    fn publish(&mut self, state: State) {
        self.made = Instant::now();
        let now = RankNow::of(&self.header, &self.replay, state);
        self.shared.on().now = Some(Arc::new(now));
    }
}

impl Follow for Rank {
    fn record(&mut self, record: Record<'_>) {
        if self.is_left {
            return;
        }
        if matches!(record, Record::State(..)) && self.replay.events > 0 {
            // It replaces all records before it.
            self.replay = Replay::new(Query::default());
        }
        self.replay.feed(record);
        self.since += 1;
        if self.since >= RECORDS {
            self.since = 0;
            self.is_left = self.shared.on().is_over;
            if self.made.elapsed() >= self.every {
                let (at, of) = (self.progress.position(), self.progress.total());
                self.publish(State::CatchingUp(at, of));
            }
        }
    }

    fn caught_up(&mut self) -> bool {
        self.changed = self.place.changed(self.progress.position());
        if self.changed.is_some() {
            return false;
        }
        let events = Some(self.replay.events);
        if self.events != events {
            self.events = events;
            self.publish(State::Running);
        }
        let on = self.shared.on();
        let waited = self
            .shared
            .over
            .wait_timeout_while(on, self.every, |on| !on.is_over);
        let (on, _) = waited.unwrap_or_else(PoisonError::into_inner);
        !on.is_over
    }
}

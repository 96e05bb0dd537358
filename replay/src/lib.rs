//! One pass over a capture's records: who held what, when it was most.
//!
//! # Design constraints
//! - Memory is bounded by the live blocks and the distinct pairs of stacks, not by the capture's length.
//! - The same records give the same state.
//! - What does not fit is counted ([`Anomalies`]), and no number is made up.
//! - This crate reads no file, and renders nothing but single numbers and labels: the analyzer feeds it what a capture holds, and turns
//!   its state into answers.
//!
//! # Not suitable for
//! - Saying what is missing of a capture: that is the analyzer's account of it.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod attribution;
pub mod backward;
mod bounded;
mod circumstance;
pub mod classes;
mod coded;
mod course;
mod device;
mod holding;
mod letting_go;
pub mod maxima;
pub mod names;
pub mod numbers;
mod objects;
pub mod python;
mod readings;
mod row;
mod state;
mod tallied;
mod tally;
mod then;

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

use gpumem_capture::{
    ApiId, CounterValues, DeviceOrdinal, Event, EventFlags, EventKind, Level, Nanos, Record, Seq,
    StackId, ThreadId,
};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::then::DeviceThen;

use crate::names::Names;
pub use bounded::Kept;
pub use circumstance::Circumstance;
pub use course::{Course, Stage, Work};
pub use device::{DevicePeak, Levels};
pub use holding::{Holding, HoldingKind};
pub use objects::{Load, Mapping, Objects};
pub use readings::{Card, Jump, Reading, Readings};
pub use row::{Anomalies, Block, Effect, KeyId, Row};
pub use state::{LetGo, Restored};
use tallied::Tallied;
pub use tally::{Figure, Total};

/// The stacks of an event, and what it was for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct StackKey {
    /// Python stack.
    pub py: StackId,
    /// Native stack.
    pub native: StackId,
    /// The module that made the call, if the recorder says: see [`Caller::module`].
    pub caller: Caller,
    /// What it was for; of frees it is not kept.
    pub work: Work,
}

/// Two words instead of four: each event's is looked up.
impl Hash for StackKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let word = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        state.write_u64(word(self.py.0, self.native.0));
        state.write_u64(word(self.caller.0, u32::from(self.work.0)));
    }
}

/// The module that made a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Caller(u32);

impl Caller {
    /// Not known.
    pub(crate) const UNKNOWN: Self = Self(0);

    /// The module whose index in [`Names::modules`] is this.
    pub fn of(module: Option<u32>) -> Self {
        Self(module.map_or(0, |index| index + 1))
    }

    /// Index into [`Names::modules`]; `None`: not known.
    pub fn module(self) -> Option<u32> {
        self.0.checked_sub(1)
    }
}

/// The moment whose figures by stack are wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Moment {
    /// Each level's own peak.
    #[default]
    Peak,
    /// After the last event.
    End,
    /// Just after this event.
    At(Seq),
    /// Just before the first event after this time.
    Time(Nanos),
    /// When this step of a training, counted from 1, had ended.
    Step(u64),
}

/// Which figures by stack are wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// When. With a step, the peak is that of what the step allocated.
    pub moment: Moment,
    /// Only of what was allocated in this step.
    pub step: Option<u64>,
    /// Whether what each device's peak had is kept, block by block: see [`Replay::at_peak_of`].
    pub peaks: bool,
    /// Only of blocks of these sizes.
    pub sizes: Sizes,
}

/// Sizes of blocks, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// The smallest.
    pub least: u64,
    /// The largest.
    pub most: u64,
}

impl Default for Sizes {
    fn default() -> Self {
        Self {
            least: 0,
            most: u64::MAX,
        }
    }
}

impl Sizes {
    /// Whether every size is one of them.
    pub fn are_all(&self) -> bool {
        *self == Self::default()
    }

    /// Whether this is one of them.
    pub fn take(&self, bytes: u64) -> bool {
        (self.least..=self.most).contains(&bytes)
    }
}

impl From<Moment> for Wanted {
    fn from(moment: Moment) -> Self {
        Self {
            moment,
            ..Self::default()
        }
    }
}

/// An allocation that failed for want of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory {
    /// Which event.
    pub seq: Seq,
    /// The event itself: see [`EventKind::OUT_OF_MEMORY`].
    pub event: Event,
    /// What the program was at.
    pub circumstance: Circumstance,
}

/// How many failures are kept in full; all are counted.
const FAILURES_KEPT: usize = 100;

/// The state after the events read so far.
#[derive(Debug, Default)]
pub struct Replay {
    /// Definitions.
    pub names: Names,
    /// Every level of every device that had an event.
    pub rows: BTreeMap<(DeviceOrdinal, Level), Row>,
    /// Every device that had an event.
    pub devices: BTreeMap<DeviceOrdinal, DevicePeak>,
    /// Distinct pairs of stacks.
    pub keys: Vec<StackKey>,
    /// The first failures.
    pub failures: Vec<OutOfMemory>,
    /// All failures.
    pub failure_count: u64,
    /// Time of the last event.
    pub last: Nanos,
    /// Number of the last event.
    pub last_seq: Seq,
    /// Events fed.
    pub events: u64,
    /// Events below the tensor level by the function that was called, readings of NVML left out.
    pub calls: FxHashMap<ApiId, u64>,
    /// Mappings, address space, loads and contexts there are now.
    pub objects: Objects,
    /// Phases, ranges and steps.
    pub course: Course,
    tallied: Tallied,
    /// The newest event that was not a mark: its stacks and its thread.
    newest: Option<(KeyId, ThreadId)>,
    key_ids: FxHashMap<StackKey, KeyId>,
    /// The id of no stacks at all, once there is one.
    stackless: Option<KeyId>,
    threads: FxHashSet<ThreadId>,
    /// What was let go of, where the state has a limit.
    pub let_go: LetGo,
    /// If the first records came as a state.
    pub restored: Option<Restored>,
    /// Where it is wanted: what each device's peak had.
    then: Option<BTreeMap<DeviceOrdinal, DeviceThen>>,
    /// The counters before the record that they are wanted at.
    counted: CountersAt,
}

/// The counters of all rows as of one place in the order of records.
#[derive(Debug, Default)]
enum CountersAt {
    /// They are not wanted.
    #[default]
    Unwanted,
    /// No record from there on was seen yet.
    Before(Seq),
    /// The place lies before the first record that is known as itself.
    Unknown,
    Found(BTreeMap<(DeviceOrdinal, Level), CounterValues>),
}

impl Replay {
    /// An empty state. Figures by stack stop at the wanted moment if that is an event.
    pub fn new(wanted: impl Into<Wanted>) -> Self {
        let wanted = wanted.into();
        Self {
            tallied: Tallied::new(wanted),
            then: wanted.peaks.then(BTreeMap::new),
            ..Self::default()
        }
    }

    /// Has the counters as they are before the record `seq` kept for [`Replay::counters_compared`].
    pub fn compare_counters_at(&mut self, seq: Seq) {
        self.counted = CountersAt::Before(seq);
    }

    /// The counters of a device and level before the record that they were wanted at, which may be the end. None: they
    /// were not wanted, or that is not known any more.
    pub fn counters_compared(&self, device: DeviceOrdinal, level: Level) -> Option<CounterValues> {
        match &self.counted {
            CountersAt::Unwanted | CountersAt::Unknown => None,
            CountersAt::Before(_) => Some(self.counters(device, level)),
            CountersAt::Found(rows) => {
                Some(rows.get(&(device, level)).copied().unwrap_or_default())
            }
        }
    }

    #[cold]
    fn keep_counters(&mut self) {
        let rows = self.rows.iter().map(|(place, row)| (*place, row.counters));
        self.counted = CountersAt::Found(rows.collect());
    }

    /// Takes in a record; says what an event did to the live blocks.
    pub fn feed(&mut self, record: Record<'_>) -> Effect {
        match record {
            Record::State(seq, state) => {
                self.restore(seq, state);
                if matches!(self.counted, CountersAt::Before(at) if at < seq) {
                    self.counted = CountersAt::Unknown;
                }
                Effect::None
            }
            Record::Event(seq, event) => {
                if matches!(self.counted, CountersAt::Before(at) if seq >= at) {
                    self.keep_counters();
                }
                self.event(seq, event)
            }
            Record::Definition(_, definition) => {
                self.names.define(definition);
                Effect::None
            }
        }
    }

    fn event(&mut self, seq: Seq, event: &Event) -> Effect {
        self.events += 1;
        self.tallied.pass(seq, event.time);
        self.last = self.last.max(event.time);
        self.last_seq = self.last_seq.max(seq);
        if self.newest.is_none_or(|(_, thread)| thread != event.thread) {
            self.threads.insert(event.thread);
        }
        if self.course.mark(event) {
            self.tallied.follow(self.course.steps, seq);
            return Effect::None;
        }
        let key = StackKey {
            py: event.py_stack,
            native: event.native_stack,
            caller: self.caller(event),
            work: self.work(event),
        };
        let key = self.key(key);
        self.newest = Some((key, event.thread));
        if event.kind == EventKind::OUT_OF_MEMORY {
            self.failure_count += 1;
            if self.failures.len() < FAILURES_KEPT {
                let (event, circumstance) = (*event, self.circumstance());
                self.failures.push(OutOfMemory {
                    seq,
                    event,
                    circumstance,
                });
            }
        }
        let reading = matches!(event.kind, EventKind::SAMPLE | EventKind::CARD);
        if !reading && event.level != Level::TENSOR {
            *self.calls.entry(event.api).or_default() += 1;
        }
        if !matches!(event.kind, EventKind::ALLOC | EventKind::FREE) {
            self.objects_change(event.kind);
            self.objects.update(event, key, &self.names);
        }
        let device = self.devices.entry(event.device).or_default();
        let mut effect = Effect::None;
        if matches!(
            event.kind,
            EventKind::ALLOC | EventKind::FREE | EventKind::CANCEL | EventKind::RESIZE
        ) {
            let row = self.rows.entry((event.device, event.level)).or_default();
            effect = row.apply(seq, event, key, device.clock, &self.tallied);
            let now = &mut device.now;
            match event.level {
                Level::TENSOR => now.tensor = row.counters.live,
                Level::DRIVER => now.driver = row.counters.live,
                Level::HOST => now.host = row.counters.live,
                Level::PHYSICAL => now.physical = row.counters.live,
                _ => {}
            }
            let managed = |block: Block| {
                let counts = event.level == Level::DRIVER;
                if counts && block.flags.contains(EventFlags::MANAGED) {
                    block.bytes
                } else {
                    0
                }
            };
            match effect {
                Effect::Live(block) => now.managed = now.managed.saturating_add(managed(block)),
                Effect::Gone(block) => now.managed = now.managed.saturating_sub(managed(block)),
                Effect::None => {}
            }
        }
        if device.update(seq, event, key, self.tallied.at(seq)) {
            let stacks = self.keys[key.0 as usize];
            device.circumstance = Circumstance::at(&self.names, &self.course, stacks, event.thread);
            self.new_peak(seq, event.device);
        } else if reading && self.then.is_some() {
            self.reading_after(event);
        }
        effect
    }

    /// What an event was for.
    fn work(&mut self, event: &Event) -> Work {
        match event.kind {
            EventKind::FREE | EventKind::SAMPLE | EventKind::CARD => Work::default(),
            _ => {
                let python = event.py_stack != StackId::NONE;
                let workspace =
                    event.flags.contains(EventFlags::WORKSPACE) && event.level == Level::TENSOR;
                Work::new(self.course.stage(event.thread, python), workspace)
            }
        }
    }

    /// The module that made an event's call, where the event says.
    fn caller(&self, event: &Event) -> Caller {
        let says = match event.kind {
            EventKind::ALLOC => event.level == Level::DRIVER || event.level == Level::HOST,
            EventKind::CONTEXT | EventKind::MODULE_LOAD => true,
            _ => false,
        };
        let address = if says { event.aux } else { 0 };
        Caller::of(
            address
                .checked_sub(1)
                .and_then(|call| self.names.module_at(call)),
        )
    }

    fn key(&mut self, key: StackKey) -> KeyId {
        // Frees mostly have no stacks.
        if key == StackKey::default() {
            if let Some(id) = self.stackless {
                return id;
            }
            self.stackless = Some(KeyId(self.keys.len() as u32));
        }
        if let Some(id) = self.key_ids.get(&key) {
            return *id;
        }
        let key = self.without_let_go(key);
        *self.key_ids.entry(key).or_insert_with(|| {
            self.keys.push(key);
            KeyId(self.keys.len() as u32 - 1)
        })
    }

    /// The stacks that an id stands for.
    pub fn stacks(&self, key: KeyId) -> StackKey {
        self.keys.get(key.0 as usize).copied().unwrap_or_default()
    }

    /// Threads that recorded an event.
    pub fn threads(&self) -> usize {
        self.threads.len()
    }

    /// A level's figures; zeros where it had no event.
    pub fn counters(&self, device: DeviceOrdinal, level: Level) -> CounterValues {
        self.rows
            .get(&(device, level))
            .map(|row| row.counters)
            .unwrap_or_default()
    }

    /// Figures by stack of a level at a moment, zeros left out, in no particular order.
    pub fn figures(
        &self,
        device: DeviceOrdinal,
        level: Level,
        moment: Moment,
    ) -> Vec<(StackKey, Figure)> {
        let Some(row) = self.rows.get(&(device, level)) else {
            return Vec::new();
        };
        match moment {
            Moment::Peak => self.named(row.at_peak()),
            _ => self.named(row.live()),
        }
    }

    /// Figures by stack of a level at the device's peak (see [`DevicePeak`]), zeros left out.
    pub fn figures_at_device_peak(
        &self,
        device: DeviceOrdinal,
        level: Level,
    ) -> Vec<(StackKey, Figure)> {
        let clock = self
            .devices
            .get(&device)
            .map(|device| device.clock)
            .unwrap_or_default();
        self.rows
            .get(&(device, level))
            .map(|row| self.named(row.at_device_peak(clock)))
            .unwrap_or_default()
    }

    fn named(&self, figures: impl Iterator<Item = (KeyId, Figure)>) -> Vec<(StackKey, Figure)> {
        figures
            .filter(|(_, figure)| figure.blocks > 0 || figure.bytes > 0)
            .map(|(key, figure)| (self.stacks(key), figure))
            .collect()
    }

    /// The last event that counts for the figures by stack, where the moment is one before the end: of a
    /// time or a step, the one that it turned out to be.
    pub fn until(&self) -> Option<Seq> {
        self.tallied.until()
    }

    /// Whether blocks of all sizes are among the figures by stack.
    pub fn tells_all_sizes(&self) -> bool {
        self.tallied.all_sizes()
    }

    /// A level's own figure at a moment, or a wanted step's: what the figures by stack must sum to, if
    /// blocks of all sizes are wanted.
    pub fn total(&self, device: DeviceOrdinal, level: Level, moment: Moment) -> u64 {
        let Some(row) = self.rows.get(&(device, level)) else {
            return 0;
        };
        match moment {
            Moment::Peak if self.tallied.step.is_some() => row.made_peak,
            _ if self.tallied.step.is_some() => row.made_live,
            Moment::Peak => row.counters.peak,
            Moment::End => row.counters.live,
            Moment::At(_) | Moment::Time(_) | Moment::Step(_) => row.live_at_moment,
        }
    }
}

#[cfg(test)]
mod tests;
